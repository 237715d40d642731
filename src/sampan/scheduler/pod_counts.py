"""Incrementally maintained pod counts for topology spreading and inter-pod affinity."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from weakref import WeakValueDictionary

from sampan.scheduler.affinity_terms import Term
from sampan.scheduler.pod_info import PodInfo, PodTable
from sampan.scheduler.pod_sorts import LabelGroup, Sort
from sampan.scheduler.sort_index import Buckets, bucket_of, buckets_of
from sampan.scheduler.tally import Tally


class PodCounts:
    def __init__(self, pods: PodTable, size: int) -> None:
        self._pods, self._size = pods, size
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self._tallies: WeakValueDictionary[Sort, Tally] = WeakValueDictionary()
        self._sorts: Buckets[Sort] = Buckets()
        """The sorts of pods that are counted."""
        self._groups: Buckets[LabelGroup] = Buckets()
        """The label groups that have pods on nodes, each in every bucket that may match it."""
        self._carried: Buckets[Term] = Buckets()
        """The affinity terms of pods on nodes."""
        self.version = 0
        """A version that is incremented when a term appears or disappears, or the labels of a namespace change."""

    def tally(self, sort: Sort) -> Tally:
        """Return the count of such pods per node; it is maintained for as long as the result is referenced."""
        tally = self._tallies.get(sort)
        if tally is None:
            bucket = bucket_of(sort.selectors)
            tally = self._tallies[sort] = Tally(self._size)
            self._sorts.add(bucket, sort)
            weakref.finalize(tally, self._forget, sort).atexit = False
            for group in self._groups.of(bucket):
                self._link(group, sort, tally)
        return tally

    def add(self, info: PodInfo, row: int) -> None:
        group = info.group
        if not group.rows:
            self._enter(group)
        _count(group, row, 1)
        group.rows[row] = group.rows.get(row, 0) + 1
        for term in info.terms:
            if term.carriers is None:
                term.carriers = Tally(self._size)
                self._carried.add(bucket_of((term.pods,)), term)
                self.version += 1
            term.carriers.add(row, 1)

    def remove(self, info: PodInfo, row: int) -> None:
        group = info.group
        _count(group, row, -1)
        group.rows[row] -= 1
        if not group.rows[row]:
            del group.rows[row]
            if not group.rows:
                self._leave(group)
        for term in info.terms:
            if term.carriers is not None:
                term.carriers.add(row, -1)
                if not term.carriers.total:
                    term.carriers = None
                    self._carried.remove(bucket_of((term.pods,)), term)
                    self.version += 1

    def terms_about(self, group: LabelGroup) -> tuple[Term, ...]:
        """Return the affinity terms of pods on nodes that match the pods of the group."""
        version, terms = group.terms
        if version != self.version:
            labels = self.namespace_labels
            near = self._carried.of(*buckets_of(group))
            terms = tuple(term for term in near if term.pods.matches(group, labels))
            group.terms = (self.version, terms)
        return terms  # type: ignore[return-value]

    def grow(self, size: int) -> None:
        self._size = size
        for tally in self._tallies.values():
            tally.grow(size)
        for term in self._carried:
            if term.carriers is not None:
                term.carriers.grow(size)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set the labels of a namespace, or remove it with None; namespace selectors of terms depend on them."""
        if self.namespace_labels.get(name) == labels:
            return
        if labels is None:
            self.namespace_labels.pop(name, None)
        else:
            self.namespace_labels[name] = labels
        self.version += 1
        for sort, tally in list(self._tallies.items()):
            if any(not selector.namespace_selector.is_nothing for selector in sort.selectors):
                self._recount(sort, tally, name)

    def _recount(self, sort: Sort, tally: Tally, namespace: str) -> None:
        for group in self._groups.of((namespace, "", "")):
            was = any(ref() is tally for ref in group.tallies)
            if was and not sort.matches(group, self.namespace_labels):
                group.tallies = [ref for ref in group.tallies if ref() is not tally]
                for row, count in group.rows.items():
                    tally.add(row, -count)
            elif not was:
                self._link(group, sort, tally)

    def _enter(self, group: LabelGroup) -> None:
        """Link a group to the tallies that count it when its first pod is added to a node."""
        buckets = list(buckets_of(group))
        for bucket in buckets:
            self._groups.add(bucket, group)
        group.tallies = []
        for sort in self._sorts.of(*buckets):
            tally = self._tallies.get(sort)
            if tally is not None:
                self._link(group, sort, tally)

    def _leave(self, group: LabelGroup) -> None:
        for bucket in buckets_of(group):
            self._groups.remove(bucket, group)
        group.tallies = []

    def _forget(self, sort: Sort) -> None:
        """Stop counting a sort whose tally is no longer referenced, unless a new tally exists already."""
        if sort not in self._tallies:
            self._sorts.remove(bucket_of(sort.selectors), sort)

    def _link(self, group: LabelGroup, sort: Sort, tally: Tally) -> None:
        if sort.matches(group, self.namespace_labels):
            group.tallies = [ref for ref in group.tallies if ref() is not None]
            group.tallies.append(weakref.ref(tally))
            for row, count in group.rows.items():
                tally.add(row, count)


def _count(group: LabelGroup, row: int, by: int) -> None:
    for ref in group.tallies:
        tally = ref()
        if tally is not None:
            tally.add(row, by)
