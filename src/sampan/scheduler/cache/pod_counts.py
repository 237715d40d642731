"""Incrementally maintained pod counts for topology spreading and inter-pod affinity, by node and by topology domain.

An index finds the classes and groups of pods that may match each other without checking all of them. A selector is in
one bucket: by its namespace if it has exactly one, and by a label that it requires with an exact value if there is one.
A group of pods is in every bucket whose selectors could match it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from sampan.scheduler.cache.arrays import Flags, Ints, grow_array
from sampan.scheduler.cache.label_columns import MISSING, LabelColumn
from sampan.scheduler.cache.label_groups import AffinityTerm, LabelGroup, PodClass, PodSelector
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable

_MAX_CACHED_TALLIES = 1024


class PodTally:
    """The number of pods of one class per node; referenced domain sums are updated with every change."""

    __slots__ = ("__weakref__", "_by_key", "_sums", "per_node", "total")

    def __init__(self, size: int) -> None:
        self.per_node: Ints = np.zeros(size, dtype=np.int64)
        self.total = 0
        self._sums: weakref.WeakSet[DomainSums] = weakref.WeakSet()
        self._by_key: dict[str, DomainSums] = {}

    def add(self, row: int, by: int) -> None:
        self.per_node[row] += by
        self.total += by
        for sums in self._sums:
            sums.add(row, by)

    def grow(self, size: int) -> None:
        self.per_node = grow_array(self.per_node, size)

    def sum_by_domain(self, column: LabelColumn, shape: int) -> DomainSums:
        """Return the sums over all nodes with the label. `shape` is the current shape of the node table. The sums are
        kept as long as the tally."""
        sums = self._by_key.get(column.key)
        if sums is None:
            sums = self._by_key[column.key] = DomainSums(self, column, None, shape)
        elif sums.shape != shape:
            sums.rebuild(None, shape)
        return sums

    def watch(self, sums: DomainSums) -> None:
        self._sums.add(sums)


class DomainSums:
    """A tally summed by the value of a label, over the nodes in the mask (None for all nodes with the label)."""

    __slots__ = ("__weakref__", "_column", "_mask", "_tally", "shape", "values")

    def __init__(self, tally: PodTally, column: LabelColumn, mask: Flags | None, shape: int) -> None:
        self._tally, self._column = tally, column
        tally.watch(self)
        self.rebuild(mask, shape)

    def rebuild(self, mask: Flags | None, shape: int) -> None:
        """Recompute the sums after nodes were added or removed, or changed their labels."""
        self._mask, self.shape = mask, shape
        codes = self._column.codes
        chosen = codes != MISSING
        if mask is not None:
            chosen[: len(mask)] &= mask
            chosen[len(mask) :] = False
        size = len(self._column.values) + 1
        weights = self._tally.per_node[: len(codes)][chosen]
        self.values: Ints = np.bincount(codes[chosen], weights=weights, minlength=size).astype(np.int64)

    def add(self, row: int, by: int) -> None:
        if self._mask is not None and not (row < len(self._mask) and self._mask[row]):
            return
        code = self._column.codes[row]
        if code != MISSING and code < len(self.values):
            self.values[code] += by

    def look_up_counts(self, codes: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Ints:
        """Return, for each node, the number of pods that were counted in its topology domain.

        A node without the label has the code MISSING (-1), which selects the last entry, always 0.
        """
        sums: Ints = self.values[codes]
        return sums


T = TypeVar("T")

Bucket = tuple[str, str, str]
"""A namespace and the key and value of a label; an empty string stands for any."""


def bucket_of(selectors: Iterable[PodSelector]) -> Bucket:
    """Return the bucket of the first selector; pods that match all selectors match the first one."""
    for selector in selectors:
        is_one = len(selector.namespaces) == 1 and selector.namespace_selector.is_nothing
        namespace = next(iter(selector.namespaces)) if is_one else ""
        exact = selector.selector.exact()
        return (namespace, *exact[-1]) if exact else (namespace, "", "")
    return ("", "", "")


def buckets_of(group: LabelGroup) -> Iterator[Bucket]:
    for namespace in {group.namespace: None, "": None}:
        yield (namespace, "", "")
        for key, value in group.labels.items():
            yield (namespace, key, value)


class OrderedBuckets(Generic[T]):
    """Items by bucket, without duplicates and in the order of insertion."""

    def __init__(self) -> None:
        self._buckets: dict[Bucket, dict[T, None]] = {}

    def add(self, bucket: Bucket, thing: T) -> None:
        self._buckets.setdefault(bucket, {})[thing] = None

    def remove(self, bucket: Bucket, thing: T) -> None:
        things = self._buckets.get(bucket)
        if things is not None:
            things.pop(thing, None)
            if not things:
                del self._buckets[bucket]

    def collect(self, *buckets: Bucket) -> list[T]:
        return [thing for bucket in buckets for thing in self._buckets.get(bucket, ())]

    def __iter__(self) -> Iterator[T]:
        return iter([thing for bucket in self._buckets.values() for thing in bucket])


class PodCounts:
    def __init__(self, pods: PodInfoTable, size: int) -> None:
        self._pods, self._size = pods, size
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self._tallies: WeakValueDictionary[PodClass, PodTally] = WeakValueDictionary()
        self._classes: OrderedBuckets[PodClass] = OrderedBuckets()
        """The classes of pods that are counted."""
        self._groups: OrderedBuckets[LabelGroup] = OrderedBuckets()
        """The label groups that have pods on nodes, each in every bucket that may match it."""
        self._carried: OrderedBuckets[AffinityTerm] = OrderedBuckets()
        """The affinity terms of pods on nodes."""
        self.version = 0
        """A version that is incremented when a term appears or disappears, or the labels of a namespace change."""

    def tally(self, pod_class: PodClass) -> PodTally:
        """Return the count of such pods per node; it is maintained for as long as the result is referenced."""
        tally = self._tallies.get(pod_class)
        if tally is None:
            bucket = bucket_of(pod_class.selectors)
            tally = self._tallies[pod_class] = PodTally(self._size)
            self._classes.add(bucket, pod_class)
            weakref.finalize(tally, self._forget, pod_class).atexit = False
            for group in self._groups.collect(bucket):
                self._link(group, pod_class, tally)
        return tally

    def add(self, info: PodInfo, row: int) -> None:
        group = info.group
        if not group.rows:
            self._add_group(group)
        _count(group, row, 1)
        group.rows[row] = group.rows.get(row, 0) + 1
        for term in info.terms:
            if term.carriers is None:
                term.carriers = PodTally(self._size)
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
                self._remove_group(group)
        for term in info.terms:
            if term.carriers is not None:
                term.carriers.add(row, -1)
                if not term.carriers.total:
                    term.carriers = None
                    self._carried.remove(bucket_of((term.pods,)), term)
                    self.version += 1

    def terms_about(self, group: LabelGroup) -> tuple[AffinityTerm, ...]:
        """Return the affinity terms, carried by pods on nodes, that match the pods of the group."""
        version, terms = group.terms
        if version != self.version:
            labels = self.namespace_labels
            near = self._carried.collect(*buckets_of(group))
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
        for pod_class, tally in list(self._tallies.items()):
            if any(not selector.namespace_selector.is_nothing for selector in pod_class.selectors):
                self._recount(pod_class, tally, name)

    def _recount(self, pod_class: PodClass, tally: PodTally, namespace: str) -> None:
        for group in self._groups.collect((namespace, "", "")):
            was = any(ref() is tally for ref in group.tallies)
            if was and not pod_class.matches(group, self.namespace_labels):
                group.tallies = [ref for ref in group.tallies if ref() is not tally]
                for row, count in group.rows.items():
                    tally.add(row, -count)
            elif not was:
                self._link(group, pod_class, tally)

    def _add_group(self, group: LabelGroup) -> None:
        """Link a group to the tallies that count it when its first pod is added to a node."""
        buckets = list(buckets_of(group))
        for bucket in buckets:
            self._groups.add(bucket, group)
        group.tallies = []
        for pod_class in self._classes.collect(*buckets):
            tally = self._tallies.get(pod_class)
            if tally is not None:
                self._link(group, pod_class, tally)

    def _remove_group(self, group: LabelGroup) -> None:
        for bucket in buckets_of(group):
            self._groups.remove(bucket, group)
        group.tallies = []

    def _forget(self, pod_class: PodClass) -> None:
        """Stop counting a class of pods whose tally is no longer referenced, unless a new tally exists already."""
        if pod_class not in self._tallies:
            self._classes.remove(bucket_of(pod_class.selectors), pod_class)

    def _link(self, group: LabelGroup, pod_class: PodClass, tally: PodTally) -> None:
        if pod_class.matches(group, self.namespace_labels):
            group.tallies = [ref for ref in group.tallies if ref() is not None]
            group.tallies.append(weakref.ref(tally))
            for row, count in group.rows.items():
                tally.add(row, count)


def _count(group: LabelGroup, row: int, by: int) -> None:
    for ref in group.tallies:
        tally = ref()
        if tally is not None:
            tally.add(row, by)


class RetainedTallies:
    """Tallies that a plugin keeps referenced, so that they are maintained between scheduling cycles. All of them are
    released when there are too many."""

    def __init__(self, counts: PodCounts) -> None:
        self._counts = counts
        self._tallies: dict[PodClass, PodTally] = {}

    def get(self, pod_class: PodClass) -> PodTally:
        tally = self._tallies.get(pod_class)
        if tally is None:
            if len(self._tallies) >= _MAX_CACHED_TALLIES:
                self._tallies.clear()
            tally = self._tallies[pod_class] = self._counts.tally(pod_class)
        return tally
