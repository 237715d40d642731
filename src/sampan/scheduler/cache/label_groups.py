"""Groups of pods that no label selector can tell apart, and the selectors of such groups.

The selectors are label selectors with namespaces, classes of pods that match several selectors, and the affinity terms
of pod specs. Equal groups and equal terms are one object, so that their pods are counted together.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import NOTHING, Selector
from sampan.api.types.core_v1 import PodAffinityTerm, PodSpec

if TYPE_CHECKING:
    from sampan.scheduler.cache.pod_counts import PodTally


NamespaceLabels = Mapping[str, Mapping[str, str]]
_NO_LABELS: Mapping[str, str] = {}


class LabelGroup:
    """Pods with the same namespace and labels, either all terminating or all not. A selector matches all of them or
    none."""

    __slots__ = ("__weakref__", "is_terminating", "labels", "namespace", "rows", "tallies", "terms")

    def __init__(self, namespace: str, labels: Mapping[str, str], is_terminating: bool) -> None:
        self.namespace, self.labels, self.is_terminating = namespace, labels, is_terminating
        self.rows: dict[int, int] = {}
        """The number of pods of this group on each row of the node table."""
        self.tallies: list[weakref.ref[PodTally]] = []
        """The tallies that count these pods."""
        self.terms: tuple[int, object] = (-1, None)
        """The affinity terms of other pods that match this group, preceded by the version of `PodCounts` at which they
        were computed."""


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


class PodClass(NamedTuple):
    """Pods that match all of the selectors."""

    selectors: tuple[PodSelector, ...]
    with_terminating: bool = True

    def matches(self, group: LabelGroup, namespaces: NamespaceLabels) -> bool:
        if group.is_terminating and not self.with_terminating:
            return False
        return all(selector.matches(group, namespaces) for selector in self.selectors)


class AffinityTermKind(Enum):
    REQUIRED = "required"
    REQUIRED_ANTI = "required anti"
    PREFERRED = "preferred"
    PREFERRED_ANTI = "preferred anti"


class AffinityTerm:
    """An affinity term. Equal terms are one object, so terms are compared by identity."""

    __slots__ = ("__weakref__", "carriers", "kind", "pods", "topology_key", "weight")

    def __init__(self, kind: AffinityTermKind, pods: PodSelector, topology_key: str, weight: int) -> None:
        self.kind, self.pods, self.topology_key, self.weight = kind, pods, topology_key, weight
        self.carriers: PodTally | None = None
        """Counts, per node, of the pods that carry this term; None while there are none."""


class AffinityTermTable:
    def __init__(self) -> None:
        self._known: WeakValueDictionary[object, AffinityTerm] = WeakValueDictionary()

    def list_terms(self, spec: PodSpec, namespace: str) -> tuple[AffinityTerm, ...]:
        """Return all affinity and anti-affinity terms of a pod with this spec in this namespace."""
        affinity = spec.affinity
        if affinity is None:
            return ()
        terms: list[AffinityTerm] = []
        for part, required, preferred in (
            (affinity.podAffinity, AffinityTermKind.REQUIRED, AffinityTermKind.PREFERRED),
            (affinity.podAntiAffinity, AffinityTermKind.REQUIRED_ANTI, AffinityTermKind.PREFERRED_ANTI),
        ):
            if part is not None:
                terms += (
                    self._term(required, term, namespace, 0)
                    for term in part.requiredDuringSchedulingIgnoredDuringExecution
                )
                terms += (
                    self._term(preferred, weighted.podAffinityTerm, namespace, weighted.weight)
                    for weighted in part.preferredDuringSchedulingIgnoredDuringExecution
                )
        return tuple(terms)

    def _term(self, kind: AffinityTermKind, term: PodAffinityTerm, namespace: str, weight: int) -> AffinityTerm:
        pods = pods_of(term, namespace)
        key = (kind, pods, term.topologyKey, weight)
        interned = self._known.get(key)
        if interned is None:
            interned = self._known[key] = AffinityTerm(kind, pods, term.topologyKey, weight)
        return interned


def pods_of(term: PodAffinityTerm, namespace: str) -> PodSelector:
    """Return the selector of the pods that the term refers to.

    The term applies to the namespace of the pod itself unless it names other namespaces. The API server has already
    merged matchLabelKeys into the label selector.
    """
    listed = term.namespaces or ([namespace] if term.namespaceSelector is None else [])
    namespaces = selector_of(term.namespaceSelector) if term.namespaceSelector is not None else NOTHING
    return PodSelector(selector_of(term.labelSelector), frozenset(listed), namespaces)


def select_terms(terms: Iterable[AffinityTerm], kind: AffinityTermKind) -> tuple[AffinityTerm, ...]:
    return tuple(term for term in terms if term.kind is kind)
