"""Sorts of pods: what a selector with its namespaces means, and groups of pods that no selector tells apart."""

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
    """Pods with the same namespace and labels that are all being deleted or all not: every selector takes all or
    none of them."""

    __slots__ = ("__weakref__", "is_terminating", "labels", "namespace", "rows", "tallies", "terms")

    def __init__(self, namespace: str, labels: Mapping[str, str], is_terminating: bool) -> None:
        self.namespace, self.labels, self.is_terminating = namespace, labels, is_terminating
        self.rows: dict[int, int] = {}
        """How many of them each node has."""
        self.tallies: list[weakref.ref[Tally]] = []
        """Those that count these pods."""
        self.terms: tuple[int, object] = (-1, None)
        """The terms of other pods that match these, and as of which version of all terms."""


class PodSelector(NamedTuple):
    """Pods with some labels in some namespaces."""

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
    """Pods that all the selectors match."""

    selectors: tuple[PodSelector, ...]
    with_terminating: bool = True

    def matches(self, group: LabelGroup, namespaces: NamespaceLabels) -> bool:
        if group.is_terminating and not self.with_terminating:
            return False
        return all(found.matches(group, namespaces) for found in self.selectors)


__all__ = ["LabelGroup", "NamespaceLabels", "PodSelector", "Sort"]
