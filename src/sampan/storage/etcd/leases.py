"""Shared leases: keys with the same time to live that are written within a short time expire together.

Most keys with a time to live are events, of which there are thousands; a lease for each would cost etcd more than the
events themselves. A lease is granted for slightly longer than requested and is reused while its remaining time is at
least the requested one, for a limited number of keys (all of them are deleted in one transaction when it expires).

Times are those of the event loop, not of the injected clock: etcd counts leases down in real time, even if a simulation
uses another clock.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

MAX_KEYS = 1000
EXTRA, MIN_EXTRA_S, MAX_EXTRA_S = 0.05, 1.0, 60.0

Grant = Callable[[int], Awaitable[tuple[int, int]]]
"""Takes whole seconds and returns the ID of the lease and the seconds that the server granted."""


class _Lease:
    __slots__ = ("id", "keys", "usable_until")

    def __init__(self, lease: int, usable_until: float) -> None:
        self.id, self.usable_until, self.keys = lease, usable_until, 0

    def is_usable(self) -> bool:
        return self.keys < MAX_KEYS and asyncio.get_running_loop().time() <= self.usable_until


class Leases:
    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._by_ttl: dict[float, _Lease] = {}
        self._granting: dict[float, asyncio.Lock] = {}

    async def take(self, ttl_s: float) -> int:
        """Return the ID of a lease that lasts at least `ttl_s` from now, for one more key."""
        lease = self._by_ttl.get(ttl_s)
        if lease is None or not lease.is_usable():
            lease = await self._renewed(ttl_s)
        lease.keys += 1
        return lease.id

    def drop(self, lease: int) -> None:
        """Forget a lease that etcd does not know."""
        self._by_ttl = {ttl_s: granted for ttl_s, granted in self._by_ttl.items() if granted.id != lease}

    async def _renewed(self, ttl_s: float) -> _Lease:
        async with self._granting.setdefault(ttl_s, asyncio.Lock()):
            lease = self._by_ttl.get(ttl_s)
            if lease is None or not lease.is_usable():
                lease = await self._granted(ttl_s)
                self._forget_spent()
                self._by_ttl[ttl_s] = lease
        return lease

    async def _granted(self, ttl_s: float) -> _Lease:
        asked_at = asyncio.get_running_loop().time()
        extra_s = min(max(ttl_s * EXTRA, MIN_EXTRA_S), MAX_EXTRA_S)
        lease, granted_s = await self._grant(math.ceil(ttl_s + extra_s))
        return _Lease(lease, asked_at + granted_s - ttl_s)

    def _forget_spent(self) -> None:
        self._by_ttl = {ttl_s: lease for ttl_s, lease in self._by_ttl.items() if lease.is_usable()}
        self._granting = {ttl_s: lock for ttl_s, lock in self._granting.items() if lock.locked()}
