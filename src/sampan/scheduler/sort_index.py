"""An index that finds the sorts and groups of pods that may match each other without checking all of them.

A selector is in one bucket: by its namespace if it has exactly one, and by a label that it requires with an exact value
if there is one. A group of pods is in every bucket whose selectors could match it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from sampan.scheduler.pod_sorts import LabelGroup, PodSelector

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


class Buckets(Generic[T]):
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

    def of(self, *buckets: Bucket) -> list[T]:
        return [thing for bucket in buckets for thing in self._buckets.get(bucket, ())]

    def __iter__(self) -> Iterator[T]:
        return iter([thing for bucket in self._buckets.values() for thing in bucket])
