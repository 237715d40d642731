"""The base of backends that show the values of another backend in another form.

Keys, revisions and the order of events are those of the inner backend, so that everything that does not concern values
is passed on.
"""

from __future__ import annotations

from typing import Self

from sampan.storage.backend import Backend


class WrappedBackend:
    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.__aexit__(*exc)

    async def count(self, prefix: str) -> int:
        return await self._inner.count(prefix)

    async def current_revision(self) -> int:
        return await self._inner.current_revision()

    async def replay_start(self, revisions: int) -> int:
        return await self._inner.replay_start(revisions)

    async def compact(self, revision: int) -> None:
        await self._inner.compact(revision)

    @property
    def compacted_revision(self) -> int:
        return self._inner.compacted_revision

    async def size(self) -> int:
        return await self._inner.size()

    @property
    def is_shared(self) -> bool:
        return self._inner.is_shared

    @property
    def kind(self) -> str:
        return self._inner.kind

    @property
    def write_failure(self) -> str:
        return self._inner.write_failure
