"""Sorts of pods: a selector with its namespaces, and groups of pods that no selector can distinguish."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from sampan.api.labels import NOTHING, Selector

if TYPE_CHECKING:
    from sampan.scheduler.tally import Tally

NamespaceLabels = Mapping[str, Mapping[str, str]]
_NO_LABELS: Mapping[str, str] = {}


class LabelGroup:
    """Pods with the same namespace and labels that are all terminating or all not: a selector matches all or none."""

    __slots__ = ("__weakref__", "is_terminating", "labels", "namespace", "rows", "tallies", "terms")

    def __init__(self, namespace: str, labels: Mapping[str, str], is_terminating: bool) -> None:
        self.namespace, self.labels, self.is_terminating = namespace, labels, is_terminating
        self.rows: dict[int, int] = {}
        """The number of these pods on each row."""
        self.tallies: list[weakref.ref[Tally]] = []
        """The tallies that count these pods."""
        self.terms: tuple[int, object] = (-1, None)
        """The terms of other pods that match these, preceded by the version of all terms that they were computed for.
        """


class PodSelector(NamedTuple):
    """Selects pods by labels and namespaces."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector = NOTHING

    def matches(self, group: LabelGroup, namespaces: NamespaceLabels) -> bool:
        if group.namespace not in self.namespaces:
            other = self.namespace_selector
            if other.is_nothing or not other.matches(namespaces.get(group.namespace, _NO_LABELS)):
                return False
        return self.selector.matches(group.labels)


class Sort(NamedTuple):
    """Pods that match all of the selectors."""

    selectors: tuple[PodSelector, ...]
    with_terminating: bool = True

    def matches(self, group: LabelGroup, namespaces: NamespaceLabels) -> bool:
        if group.is_terminating and not self.with_terminating:
            return False
        return all(selector.matches(group, namespaces) for selector in self.selectors)
