"""Leases: each is shared for a limited time by a limited number of keys."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sampan.storage.etcd.writer import MAX_KEYS, LeasePool


class _Etcd:
    """Grants leases with the requested TTL, or at least `min_s`."""

    def __init__(self, min_s: int = 0) -> None:
        self.granted: list[int] = []
        self._min_s = min_s

    async def grant(self, ttl_s: int) -> tuple[int, int]:
        await asyncio.sleep(0)
        self.granted.append(max(ttl_s, self._min_s))
        return len(self.granted), self.granted[-1]


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose time a test can advance."""

    advanced_s = 0.0

    def time(self) -> float:
        return super().time() + self.advanced_s


def _run(main: Callable[[_Loop], Coroutine[Any, Any, None]]) -> None:
    loop = _Loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main(loop))


def test_keys_written_together_share_a_lease() -> None:
    async def main(loop: _Loop) -> None:
        etcd = _Etcd()
        leases = LeasePool(etcd.grant)
        leased = await asyncio.gather(*(leases.take(3600) for _ in range(100)))
        assert set(leased) == {1}
        assert etcd.granted == [3660], "a minute longer than requested, so that later keys can share the lease"
        assert await leases.take(60) == 2, "another TTL needs another lease"

    _run(main)


@pytest.mark.parametrize(("ttl_s", "usable_s"), [(3600.0, 60.0), (100.0, 5.0), (2.0, 1.0), (0.5, 1.5)])
def test_lease_is_reused_while_its_remaining_ttl_suffices(ttl_s: float, usable_s: float) -> None:
    async def main(loop: _Loop) -> None:
        leases = LeasePool(_Etcd().grant)
        assert await leases.take(ttl_s) == 1
        loop.advanced_s += usable_s - 0.3
        assert await leases.take(ttl_s) == 1
        loop.advanced_s += 0.6
        assert await leases.take(ttl_s) == 2

    _run(main)


def test_lease_with_a_longer_granted_ttl_is_reused_longer() -> None:
    async def main(loop: _Loop) -> None:
        leases = LeasePool(_Etcd(min_s=10).grant)
        assert await leases.take(2) == 1
        loop.advanced_s += 7.5
        assert await leases.take(2) == 1
        loop.advanced_s += 1
        assert await leases.take(2) == 2

    _run(main)


def test_lease_is_shared_by_at_most_max_keys() -> None:
    async def main(loop: _Loop) -> None:
        leases = LeasePool(_Etcd().grant)
        leased = [await leases.take(3600) for _ in range(2 * MAX_KEYS + 1)]
        assert {lease: leased.count(lease) for lease in set(leased)} == {1: MAX_KEYS, 2: MAX_KEYS, 3: 1}

    _run(main)


def test_dropped_lease_is_not_reused() -> None:
    async def main(loop: _Loop) -> None:
        leases = LeasePool(_Etcd().grant)
        leases.drop(await leases.take(3600))
        assert await leases.take(3600) == 2

    _run(main)


def test_failed_grant_fails_only_its_own_caller() -> None:
    async def main(loop: _Loop) -> None:
        etcd, outcomes = _Etcd(), [ZeroDivisionError(), None]

        async def grant(ttl_s: int) -> tuple[int, int]:
            if error := outcomes.pop(0):
                raise error
            return await etcd.grant(ttl_s)

        leases = LeasePool(grant)
        first, second = await asyncio.gather(leases.take(60), leases.take(60), return_exceptions=True)
        assert isinstance(first, ZeroDivisionError)
        assert second == 1

    _run(main)
