"""Lookup of the watches that an event concerns by its key, at a cost that does not depend on the number of watches."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Routed(Protocol):
    @property
    def prefix(self) -> str: ...


R = TypeVar("R", bound=Routed)


class Routes(Generic[R]):
    def __init__(self) -> None:
        self._by_prefix: dict[str, dict[R, None]] = {}
        self._lengths: list[int] = []

    def __iter__(self) -> Iterator[R]:
        for routed in list(self._by_prefix.values()):
            yield from list(routed)

    def add(self, routed: R) -> None:
        self._by_prefix.setdefault(routed.prefix, {})[routed] = None
        self._measure()

    def discard(self, routed: R) -> None:
        same = self._by_prefix.get(routed.prefix, {})
        same.pop(routed, None)
        if not same:
            self._by_prefix.pop(routed.prefix, None)
        self._measure()

    def _measure(self) -> None:
        self._lengths = sorted({len(prefix) for prefix in self._by_prefix})

    def matching(self, key: str) -> Iterator[R]:
        for length in self._lengths:
            yield from self._by_prefix.get(key[:length], ())
