"""The counts that spreading and affinity between pods rest on, kept up to date pod by pod."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from weakref import WeakValueDictionary

from sampan.scheduler.affinity_terms import Term
from sampan.scheduler.pod_info import PodInfo, PodTable
from sampan.scheduler.pod_sorts import LabelGroup, Sort
from sampan.scheduler.tally import Tally


class PodCounts:
    def __init__(self, pods: PodTable, size: int) -> None:
        self._pods, self._size = pods, size
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self._tallies: WeakValueDictionary[Sort, Tally] = WeakValueDictionary()
        self._known_groups: weakref.WeakSet[LabelGroup] = weakref.WeakSet()
        self._carried: dict[str, dict[Term, None]] = {}
        """Terms that some pod has, by the one namespace that they are about; under "" those of several."""
        self.version = 0
        """Counts up when a term appears or goes, or a namespace's labels change."""

    def tally(self, sort: Sort) -> Tally:
        """How many such pods each node has; counted from then on for as long as somebody holds it."""
        found = self._tallies.get(sort)
        if found is None:
            found = self._tallies[sort] = Tally(self._size)
            for group in self._known_groups:
                self._link(group, sort, found)
        return found

    def add(self, info: PodInfo, row: int) -> None:
        self._count(info, row, 1)
        rows = info.group.rows
        rows[row] = rows.get(row, 0) + 1
        for term in info.terms:
            if term.carriers is None:
                term.carriers = Tally(self._size)
                self._carried.setdefault(_bucket(term), {})[term] = None
                self.version += 1
            term.carriers.add(row, 1)

    def remove(self, info: PodInfo, row: int) -> None:
        self._count(info, row, -1)
        rows = info.group.rows
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
        for term in info.terms:
            if term.carriers is not None:
                term.carriers.add(row, -1)
                if not term.carriers.total:
                    term.carriers = None
                    del self._carried[_bucket(term)][term]
                    self.version += 1

    def terms_about(self, group: LabelGroup) -> tuple[Term, ...]:
        """The terms of pods on nodes that match the pods of the group."""
        version, found = group.terms
        if version != self.version:
            labels = self.namespace_labels
            found = tuple(term for term in self._candidates(group.namespace) if term.pods.matches(group, labels))
            group.terms = (self.version, found)
        return found  # type: ignore[return-value]

    def grow(self, size: int) -> None:
        self._size = size
        for tally in self._tallies.values():
            tally.grow(size)
        for terms in self._carried.values():
            for term in terms:
                if term.carriers is not None:
                    term.carriers.grow(size)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace came, changed or went: terms may choose by its labels."""
        if self.namespace_labels.get(name) == labels:
            return
        if labels is None:
            self.namespace_labels.pop(name, None)
        else:
            self.namespace_labels[name] = labels
        self.version += 1
        for sort, tally in list(self._tallies.items()):
            if any(not found.namespace_selector.is_nothing for found in sort.selectors):
                self._recount(sort, tally, name)

    def _recount(self, sort: Sort, tally: Tally, namespace: str) -> None:
        for group in self._known_groups:
            if group.namespace != namespace:
                continue
            was = any(ref() is tally for ref in group.tallies)
            if was and not sort.matches(group, self.namespace_labels):
                group.tallies = [ref for ref in group.tallies if ref() is not tally]
                for row, count in group.rows.items():
                    tally.add(row, -count)
            elif not was:
                self._link(group, sort, tally)

    def _count(self, info: PodInfo, row: int, by: int) -> None:
        group = info.group
        if group not in self._known_groups:
            self._known_groups.add(group)
            for sort, tally in list(self._tallies.items()):
                self._link(group, sort, tally)
        for ref in group.tallies:
            tally_or_none = ref()
            if tally_or_none is not None:
                tally_or_none.add(row, by)

    def _link(self, group: LabelGroup, sort: Sort, tally: Tally) -> None:
        if sort.matches(group, self.namespace_labels):
            group.tallies = [ref for ref in group.tallies if ref() is not None]
            group.tallies.append(weakref.ref(tally))
            for row, count in group.rows.items():
                tally.add(row, count)

    def _candidates(self, namespace: str) -> Iterable[Term]:
        yield from self._carried.get(namespace, ())
        yield from self._carried.get("", ())


def _bucket(term: Term) -> str:
    pods = term.pods
    if len(pods.namespaces) == 1 and pods.namespace_selector.is_nothing:
        return next(iter(pods.namespaces))
    return ""


__all__ = ["PodCounts"]
