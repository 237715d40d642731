"""The bounded cache: what it keeps, what it drops, and how it counts memory."""

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum

import pytest

from sampan.host.bounded_cache import ENTRY_BYTES, BoundedCache, measure_bytes


class Kind(Enum):
    ONE = 1


@dataclass
class Node:
    text: str
    next: "Node | None" = None


def test_result_is_computed_once() -> None:
    arguments: list[str] = []

    def compute(text: str) -> str:
        arguments.append(text)
        return text.upper()

    cache = BoundedCache(compute, max_entries=10)
    assert [cache["a"], cache["b"], cache["a"]] == ["A", "B", "A"]
    assert arguments == ["a", "b"]


def test_failed_computation_is_not_kept() -> None:
    cache: BoundedCache[str, int] = BoundedCache(int, max_entries=10)
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            cache["x"]
    assert (len(cache), cache.bytes) == (0, 0)


def test_oldest_entries_beyond_the_number_are_dropped() -> None:
    cache = BoundedCache(str.upper, max_entries=2)
    assert [cache["a"], cache["b"], cache["c"]] == ["A", "B", "C"]
    assert [*cache] == ["b", "c"]


def test_oldest_entries_beyond_the_bytes_are_dropped() -> None:
    cache = BoundedCache(str.upper, max_entries=10_000, max_bytes=20_000)
    for number in range(1000):
        assert cache[f"key-{number}"] == f"KEY-{number}"
        assert cache.bytes <= 20_000
    assert "key-999" in cache
    assert len(cache) < 20_000 / ENTRY_BYTES


@pytest.mark.parametrize("key", ["k" * 600, ("k", "k" * 600), ("k", tuple(map(str, range(100)))), b"k" * 600])
def test_entry_with_a_long_key_is_not_kept(key: Hashable) -> None:
    cache: BoundedCache[Hashable, int] = BoundedCache(lambda key: 1, max_entries=10, max_entry_bytes=512)
    assert cache[key] == 1
    assert (len(cache), cache.bytes) == (0, 0)


def test_entry_with_a_large_value_is_not_kept() -> None:
    cache: BoundedCache[str, list[str]] = BoundedCache(lambda key: ["v" * 600], max_entries=10, max_entry_bytes=512)
    assert cache["k"] == ["v" * 600]
    assert (len(cache), cache.bytes) == (0, 0)


def test_large_value_replaces_the_kept_one() -> None:
    cache: BoundedCache[str, str] = BoundedCache(max_entries=10, max_entry_bytes=512)
    cache.keep("k", "v")
    cache.keep("k", "v" * 600)
    assert (len(cache), cache.bytes) == (0, 0)
    with pytest.raises(KeyError):
        cache["k"]


def test_used_entries_are_the_last_to_be_dropped() -> None:
    cache = BoundedCache(str.upper, max_entries=2)
    assert [cache.use("a"), cache.use("b"), cache.use("a"), cache.use("c")] == ["A", "B", "A", "C"]
    assert [*cache] == ["a", "c"]


def test_removed_entries_do_not_count() -> None:
    cache = BoundedCache(str.upper, max_entries=10)
    assert cache["a"] + cache["b"] == "AB"
    cache.discard("a")
    cache.discard("none")
    size = cache.bytes
    cache.keep("b", "B")
    assert cache.bytes == size
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)


def test_all_that_a_value_refers_to_counts_once() -> None:
    shared = "s" * 1000
    assert 1000 < measure_bytes([shared, (shared, {"key": shared})], 10_000) < 1700
    chain = Node("a" * 1000, Node("b" * 1000))
    assert 2000 < measure_bytes(chain, 10_000) < 3000
    chain.next = chain
    assert 1000 < measure_bytes(chain, 10_000) < 2000


def test_values_that_the_process_shares_do_not_count() -> None:
    assert measure_bytes((Kind.ONE, Node, len), 10_000) < 100


def test_counting_stops_at_the_limit() -> None:
    assert 100 < measure_bytes([str(number) for number in range(1000)], 100) < 10_000


def test_threads_share_a_cache() -> None:
    cache = BoundedCache(str.upper, max_entries=50, max_bytes=10_000)

    def read() -> None:
        for number in range(5000):
            assert cache[f"k{number % 120}"] == f"K{number % 120}"

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.bytes == sum(
        measure_bytes(key, 512) + measure_bytes(cache[key], 512) + ENTRY_BYTES for key in [*cache]
    )
    assert len(cache) <= 50
