"""Charging of quotas in the storage.

A charge is a compare-and-swap on the status of the quota, so it counts as soon as it is written, for every server.
Charges that wait for the same quota are written together by the first of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sampan.api.quantity import Quantity, parse
from sampan.api.semantics.pod_resources import Amounts
from sampan.api.types.core_v1 import ResourceQuota
from sampan.apiserver.registry.store import Store
from sampan.apiserver.registry.stored_object import StoredObject
from sampan.storage.backend import StoreConflict

_ZERO = Quantity()


@dataclass(slots=True, kw_only=True)
class QuotaCharge:
    amounts: Amounts
    """The amounts to add; negative ones are released."""
    is_limited: bool = True
    """Whether the charge is rejected if it does not fit; otherwise it is only recorded."""


@dataclass(slots=True)
class QuotaUsage:
    """The usage of a quota after some charges, and why some of them do not fit, by position."""

    used: dict[str, str]
    refusals: dict[int, str] = field(default_factory=dict)


def add_charges(quota: ResourceQuota, charges: Sequence[QuotaCharge]) -> QuotaUsage:
    usage = QuotaUsage(dict(quota.status.used))
    for index, charge in enumerate(charges):
        amounts = {name: amount for name, amount in charge.amounts.items() if name in quota.status.hard}
        exceeded = _exceeded(quota, usage.used, amounts) if charge.is_limited else []
        if exceeded:
            usage.refusals[index] = _describe_exceeded(quota, usage.used, amounts, exceeded)
        else:
            usage.used |= {name: str(_after(usage.used, name, amount)) for name, amount in amounts.items()}
    return usage


def _after(used: dict[str, str], name: str, amount: Quantity) -> Quantity:
    total = parse(used.get(name, "0")) + amount
    return total if total.sign >= 0 else _ZERO


def _exceeded(quota: ResourceQuota, used: dict[str, str], requested: Amounts) -> list[str]:
    hard = quota.status.hard
    return sorted(name for name, amount in requested.items() if _after(used, name, amount) > parse(hard[name]))


def _describe_exceeded(quota: ResourceQuota, used: dict[str, str], requested: Amounts, names: Iterable[str]) -> str:
    columns = (("requested", requested), ("used", used), ("limited", quota.status.hard))
    texts = [f"{word}: {','.join(f'{name}={amounts[name]}' for name in names)}" for word, amounts in columns]
    return f"exceeded quota: {quota.metadata.name}, {', '.join(texts)}"


@dataclass(slots=True, eq=False)
class _Waiting:
    charge: QuotaCharge
    is_done: bool = False
    refusal: str = ""


@dataclass(slots=True)
class _Line:
    """The charges that wait for one quota."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_Waiting] = field(default_factory=list)
    users: int = 0


class QuotaCharger:
    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    async def charge(self, store: Store, namespace: str, name: str, charge: QuotaCharge) -> str:
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
            usage = await _write_charges(store, quota, [waiter.charge for waiter in batch])
        except BaseException:
            line.waiting = [waiter for waiter in batch if waiter is not mine] + line.waiting
            raise
        for index, waiter in enumerate(batch):
            waiter.is_done, waiter.refusal = True, usage.refusals.get(index, "")


async def _write_charges(store: Store, quota: tuple[str, str], charges: Sequence[QuotaCharge]) -> QuotaUsage:
    """Return the usage that was written. The cached quota is sufficient for a write, which fails if it is stale, but a
    rejection requires the current one."""
    stored_objects, key = store.stored_objects, store.key(*quota)
    stored = stored_objects.peek(*quota) or await stored_objects.read(key)
    while stored is not None:
        usage = add_charges(stored.obj, charges)
        if usage.refusals and not stored.is_current:
            stored = await stored_objects.read(key)
            continue
        if usage.used == stored.obj.status.used:
            return usage
        try:
            await _put(store, stored, usage.used)
        except StoreConflict as conflict:
            stored = stored_objects.from_entry(conflict.current)
        else:
            return usage
    return QuotaUsage({})


async def _put(store: Store, stored: StoredObject, used: dict[str, str]) -> None:
    quota = stored.copy()
    quota.status.used = used
    quota.metadata.resourceVersion = ""
    await store.backend.put(stored.item.key, store.codec.encode(quota), expected=stored.revision)
