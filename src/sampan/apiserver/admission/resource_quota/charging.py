"""Charging of quotas in the storage.

A charge is a compare-and-swap on the status of the quota, so it counts as soon as it is written, for every server.
Charges that wait for the same quota are written together by the first of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sampan.apiserver.admission.resource_quota.ledger import Charge, Page, tally
from sampan.apiserver.registry.store import Store
from sampan.apiserver.registry.stored_object import StoredObject
from sampan.storage.backend import StoreConflict


@dataclass(slots=True, eq=False)
class _Waiting:
    charge: Charge
    is_done: bool = False
    refusal: str = ""


@dataclass(slots=True)
class _Line:
    """The charges that wait for one quota."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Waiting] = field(default_factory=list)
    users: int = 0


class Charging:
    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    async def charge(self, store: Store, namespace: str, name: str, charge: Charge) -> str:
        """Charge the quota. Return why the charge does not fit, or "". A quota that was deleted accepts everything."""
        mine = _Waiting(charge)
        async with self._line(store.key(namespace, name)) as line:
            line.waiting.append(mine)
            async with line.lock:
                if not mine.is_done:
                    await self._write_all(store, (namespace, name), line, mine)
        return mine.refusal

    @asynccontextmanager
    async def _line(self, key: str) -> AsyncIterator[_Line]:
        line = self._lines.setdefault(key, _Line())
        line.users += 1
        try:
            yield line
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[key]

    async def _write_all(self, store: Store, quota: tuple[str, str], line: _Line, mine: _Waiting) -> None:
        """Write all waiting charges. If this fails or the request is cancelled, the other requests retry by themselves.
        A charge may then have been written although its request failed: usage may be too high, but never too low."""
        batch, line.waiting = line.waiting, []
        try:
            page = await _written(store, quota, [waiter.charge for waiter in batch])
        except BaseException:
            line.waiting = [waiter for waiter in batch if waiter is not mine] + line.waiting
            raise
        for index, waiter in enumerate(batch):
            waiter.is_done, waiter.refusal = True, page.refusals.get(index, "")


async def _written(store: Store, quota: tuple[str, str], charges: Sequence[Charge]) -> Page:
    """Return the page that was written. The cached quota is sufficient for a write, which fails if it is stale, but a
    rejection requires the current one."""
    stored_objects, key = store.stored_objects, store.key(*quota)
    stored = stored_objects.peek(*quota) or await stored_objects.read(key)
    while stored is not None:
        page = tally(stored.obj, charges)
        if page.refusals and not stored.is_current:
            stored = await stored_objects.read(key)
            continue
        if page.used == stored.obj.status.used:
            return page
        try:
            await _put(store, stored, page.used)
        except StoreConflict as conflict:
            stored = stored_objects.from_entry(conflict.current)
        else:
            return page
    return Page({})


async def _put(store: Store, stored: StoredObject, used: dict[str, str]) -> None:
    quota = stored.copy()
    quota.status.used = used
    quota.metadata.resourceVersion = ""
    await store.backend.put(stored.item.key, store.codec.encode(quota), expected=stored.revision)
