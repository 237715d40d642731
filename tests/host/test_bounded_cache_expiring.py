"""The expiring cache: expiry of entries and the limit of their number."""

from sampan.host.bounded_cache import ExpiringCache
from sampan.host.clock import VirtualClock


async def test_entries_expire() -> None:
    clock = VirtualClock()
    cache: ExpiringCache[str, int] = ExpiringCache(clock=clock, max_entries=2)
    cache.keep("a", 1, 10)
    cache.keep("b", 2, 20)
    await clock.advance(9)
    assert (cache.get("a"), cache.get("b"), len(cache)) == (1, 2, 2)
    await clock.advance(1)
    assert (cache.get("a"), cache.get("b"), len(cache)) == (None, 2, 1)


def test_entry_without_a_lifetime_is_not_kept() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(clock=VirtualClock(), max_entries=2)
    cache.keep("a", 1, 0)
    assert (cache.get("a"), len(cache)) == (None, 0)


def test_least_recently_used_entry_beyond_the_limit_is_dropped() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(clock=VirtualClock(), max_entries=2)
    cache.keep("a", 1, 10)
    cache.keep("b", 2, 20)
    assert cache.get("a") == 1
    cache.keep("c", 3, 10)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
    cache.keep("a", 4, 10)
    cache.keep("d", 5, 10)
    assert (cache.get("a"), cache.get("c"), cache.get("d"), len(cache)) == (4, None, 5, 2)
