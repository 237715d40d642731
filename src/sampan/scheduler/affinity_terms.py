"""Pod affinity and anti-affinity terms, read from a pod spec and interned so that pods with equal terms are counted
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from sampan.api.label_selector import selector_of
from sampan.api.labels import NOTHING
from sampan.api.types.core_v1 import PodAffinityTerm, PodSpec
from sampan.scheduler.pod_sorts import PodSelector

if TYPE_CHECKING:
    from sampan.scheduler.tally import Tally


class TermKind(Enum):
    REQUIRED = "required"
    REQUIRED_ANTI = "required anti"
    PREFERRED = "preferred"
    PREFERRED_ANTI = "preferred anti"


class Term:
    """An affinity term. Equal terms are one object, so terms are compared by identity."""

    __slots__ = ("__weakref__", "carriers", "kind", "pods", "topology_key", "weight")

    def __init__(self, kind: TermKind, pods: PodSelector, topology_key: str, weight: int) -> None:
        self.kind, self.pods, self.topology_key, self.weight = kind, pods, topology_key, weight
        self.carriers: Tally | None = None
        """Counts, per node, of the pods that carry this term; None while there are none."""


class TermTable:
    def __init__(self) -> None:
        self._known: WeakValueDictionary[object, Term] = WeakValueDictionary()

    def of(self, spec: PodSpec, namespace: str) -> tuple[Term, ...]:
        """Return all affinity and anti-affinity terms of a pod with this spec in this namespace."""
        affinity = spec.affinity
        if affinity is None:
            return ()
        terms: list[Term] = []
        for part, required, preferred in (
            (affinity.podAffinity, TermKind.REQUIRED, TermKind.PREFERRED),
            (affinity.podAntiAffinity, TermKind.REQUIRED_ANTI, TermKind.PREFERRED_ANTI),
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

    def _term(self, kind: TermKind, term: PodAffinityTerm, namespace: str, weight: int) -> Term:
        pods = pods_of(term, namespace)
        key = (kind, pods, term.topologyKey, weight)
        interned = self._known.get(key)
        if interned is None:
            interned = self._known[key] = Term(kind, pods, term.topologyKey, weight)
        return interned


def pods_of(term: PodAffinityTerm, namespace: str) -> PodSelector:
    """Return the selector of the pods that the term refers to.

    The term applies to the namespace of the pod itself unless it names other namespaces. The API server has already
    merged matchLabelKeys into the label selector.
    """
    listed = term.namespaces or ([namespace] if term.namespaceSelector is None else [])
    namespaces = selector_of(term.namespaceSelector) if term.namespaceSelector is not None else NOTHING
    return PodSelector(selector_of(term.labelSelector), frozenset(listed), namespaces)


def of_kind(terms: Iterable[Term], kind: TermKind) -> tuple[Term, ...]:
    return tuple(term for term in terms if term.kind is kind)
