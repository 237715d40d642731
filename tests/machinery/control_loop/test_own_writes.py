"""A cache that does not show an own write is stale."""

import asyncio

from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import VirtualClock
from sampan.machinery.control_loop.own_writes import DependentWrites, OwnWrites
from sampan.machinery.object_key import NamespacedName

OWNER = NamespacedName("default", "web")


def endpoint_slice(name: str, version: str = "10") -> EndpointSlice:
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resourceVersion=version)
    return EndpointSlice(metadata=meta)


def test_an_object_older_than_the_write_is_stale() -> None:
    writes = OwnWrites()
    assert not writes.is_stale(endpoint_slice("a", "9"))
    writes.record_write(endpoint_slice("a", "10"))
    assert writes.is_stale(endpoint_slice("a", "9"))
    assert not writes.is_stale(endpoint_slice("b", "9"))
    assert not writes.is_stale(endpoint_slice("a", "10"))


def test_write_is_forgotten_by_an_event_and_not_by_a_query() -> None:
    writes = OwnWrites()
    writes.record_write(endpoint_slice("a", "10"))
    assert not writes.is_stale(endpoint_slice("a", "10"))
    assert writes.version_of("uid-a") == 10
    writes.observe(None, endpoint_slice("a", "9"))
    assert writes.version_of("uid-a") == 10
    writes.observe(endpoint_slice("a", "9"), endpoint_slice("a", "10"))
    assert writes.version_of("uid-a") is None


def test_a_deleted_object_is_stale_until_it_leaves_the_cache() -> None:
    writes = OwnWrites()
    writes.record_deletion(endpoint_slice("a", "10"))
    writes.observe(endpoint_slice("a", "10"), endpoint_slice("a", "11"))
    assert writes.is_stale(endpoint_slice("a", "11"))
    writes.observe(endpoint_slice("a", "11"), None)
    assert not writes.is_stale(endpoint_slice("a", "11"))


def test_owner_is_deferred_until_its_dependents_are_observed() -> None:
    writes = DependentWrites(clock=VirtualClock())
    writes.record_write(OWNER, endpoint_slice("a"), None)
    writes.record_write(OWNER, endpoint_slice("b"), endpoint_slice("b", "9"))
    assert writes.defer(OWNER) == 30
    assert writes.observe(None, endpoint_slice("a"))
    assert writes.defer(OWNER) == 30
    assert not writes.observe(endpoint_slice("b", "9"), endpoint_slice("b")), "the sync was deferred: repeat it"
    assert writes.defer(OWNER) == 0


def test_own_write_needs_no_sync_of_an_owner_that_was_not_deferred() -> None:
    writes = DependentWrites(clock=VirtualClock())
    writes.record_write(OWNER, endpoint_slice("a"), None)
    assert writes.observe(None, endpoint_slice("a"))
    assert not writes.observe(endpoint_slice("a"), endpoint_slice("a", "11")), "another writer"
    writes.record_write(OWNER, endpoint_slice("a", "13"), endpoint_slice("a", "11"))
    assert writes.observe(endpoint_slice("a", "11"), endpoint_slice("a", "13"))
    writes.record_write(OWNER, endpoint_slice("a", "14"), endpoint_slice("a", "13"))
    assert not writes.observe(endpoint_slice("a", "13"), None), "a deletion is never an own write"
    assert writes.defer(OWNER) == 0


def test_write_observed_before_its_response_is_not_awaited() -> None:
    writes = DependentWrites(clock=VirtualClock())
    writes.record_write(OWNER, endpoint_slice("a"), endpoint_slice("a"))
    writes.record_write(OWNER, endpoint_slice("b"), endpoint_slice("b", "12"))
    assert writes.defer(OWNER) == 0


def test_older_event_does_not_end_the_deferral() -> None:
    writes = DependentWrites(clock=VirtualClock())
    writes.record_write(OWNER, endpoint_slice("a"), endpoint_slice("a", "7"))
    assert not writes.observe(endpoint_slice("a", "7"), endpoint_slice("a", "8"))
    assert writes.defer(OWNER) == 30


def test_write_that_is_never_observed_expires() -> None:
    clock = VirtualClock()
    writes = DependentWrites(clock=clock)
    writes.record_write(OWNER, endpoint_slice("a"), None)
    asyncio.run(clock.advance(30))
    assert writes.defer(OWNER) == 0
    writes.forget(OWNER)
    assert not writes.observe(None, endpoint_slice("a"))
