"""Sets of completion indexes, stored and formatted as intervals: `1,3-5,7`."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sampan.api.integers import parse_int64

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation and label of the pods of an indexed job."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Indexes:
    spans: tuple[Span, ...] = ()
    """Pairs of first and last index, ascending, with a gap between neighbours."""

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "Indexes":
        return cls(_joined((index, index) for index in indexes))

    @classmethod
    def parse(cls, text: str, completions: int) -> "Indexes":
        """Return the indexes below `completions`; parts that cannot be parsed are ignored."""
        return cls(_joined(_spans(text, completions)))

    def __or__(self, other: "Indexes") -> "Indexes":
        return Indexes(_joined((*self.spans, *other.spans))) if other.spans else self

    def __contains__(self, index: int) -> bool:
        position = bisect_left(self.spans, index, key=lambda span: span[1])
        return position < len(self.spans) and self.spans[position][0] <= index

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __str__(self) -> str:
        return ",".join(_text(first, last) for first, last in self.spans)

    def overlap(self, other: "Indexes") -> int:
        """Return the number of indexes in both sets."""
        return len(self) + len(other) - len(self | other)

    def missing(self, completions: int) -> Iterator[int]:
        """Yield the indexes below `completions` that are not in the set, in ascending order."""
        start = 0
        for first, last in self.spans:
            yield from range(start, min(first, completions))
            start = last + 1
        yield from range(start, completions)


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _spans(text: str, completions: int) -> Iterator[Span]:
    for part in filter(None, text.split(",")):
        ends = [parse_int64(end) for end in part.split("-")[:2]]
        first, last = ends[0], ends[-1]
        if first is None or last is None:
            continue
        last = min(last, completions - 1)
        if first >= completions:
            return
        yield first, last


def _text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def completion_index(pod: Any) -> int | None:
    """Return the completion index of a pod, or None if it has none."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    index = parse_int64(text)
    return index if index is not None and index >= 0 else None
