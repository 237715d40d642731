"""What of devices is taken: what informers tell of, and what is promised before they do."""

from typing import Any

from sampan.api.types.resource_v1 import ResourceClaim
from sampan.api.values.quantity import parse
from sampan.scheduler.devices.pools import DeviceId, PoolId
from tests.scheduler.devices.device_world import DRIVER, World, claim, having, result

POOL = PoolId(DRIVER, "p")


def allocated_names(world: World) -> set[str]:
    return {name for name in ("d0", "d1") if world.allocated_devices.is_taken(DeviceId(DRIVER, "p", name))}


def promised(world: World, name: str, device: str) -> ResourceClaim:
    claim = having(result(device), name=name)
    assert claim.status.allocation is not None
    world.allocated_devices.add_pending(name, claim.status.allocation)
    return claim


def test_a_promise_counts_until_it_is_seen_to_be_kept() -> None:
    world = World()
    promised_claim = promised(world, "c", "d0")
    assert allocated_names(world) == {"d0"}
    world.put(claim(name="c"))
    assert allocated_names(world) == {"d0"}, "not written yet"
    at = world.allocated_devices.position
    world.put(promised_claim)
    assert allocated_names(world) == {"d0"}
    assert world.allocated_devices.since(at) == [], "nothing has changed"
    assert not world.allocated_devices.is_pending("c")
    world.remove(promised_claim)
    assert allocated_names(world) == set()


def test_a_promise_that_is_withdrawn() -> None:
    world = World()
    promised(world, "c", "d0")
    world.allocated_devices.remove_pending("c")
    assert allocated_names(world) == set()
    world.allocated_devices.remove_pending("c")
    assert allocated_names(world) == set()


def test_what_was_written_counts_until_something_newer_is_seen() -> None:
    world = World()
    promised(world, "c", "d0")
    world.allocated_devices.note_written("c", "2")
    world.allocated_devices.remove_pending("c")
    assert allocated_names(world) == {"d0"}, "it is on the server"
    world.put(claim(name="c"))
    assert allocated_names(world) == {"d0"}, "that is how it was before"
    world.put(claim(name="c"))
    assert allocated_names(world) == set(), "somebody has taken the devices away"


def test_a_claim_that_was_made_up_gets_a_uid() -> None:
    world = World()
    promised(world, "made up", "d0")
    world.allocated_devices.replace_uid("made up", "c")
    world.allocated_devices.remove_pending("made up")
    assert allocated_names(world) == {"d0"}
    claim = having(result("d0"), name="c")
    world.put(claim)
    assert world.allocated_devices.used_in(POOL)["d0"].owners == 1
    world.remove(claim)
    assert allocated_names(world) == set()


def test_another_took_something_else() -> None:
    world = World()
    promised(world, "c", "d0")
    world.put(having(result("d1"), name="c"))
    assert allocated_names(world) == {"d1"}


def test_shares_are_added_up() -> None:
    def part(amount: str, id: str) -> Any:
        return result("d0", shareID=id, consumedCapacity={"memory": amount})

    world = World()
    first, second = having(part("1Gi", "a"), part("2Gi", "b"), name="c"), having(part("512Mi", "c"), name="d")
    world.put(first)
    world.put(second)
    id = DeviceId(DRIVER, "p", "d0")
    assert world.allocated_devices.consumed(id) == {"memory": parse("3584Mi")}
    assert not world.allocated_devices.is_taken(id)
    assert world.allocated_devices.is_shared(id)
    world.remove(first)
    assert world.allocated_devices.consumed(id) == {"memory": parse("512Mi")}
    world.remove(second)
    assert not world.allocated_devices.is_shared(id)


def test_changes_say_whether_devices_are_free_again() -> None:
    world = World()
    at = world.allocated_devices.position
    claim = having(result("d0"))
    world.put(claim)
    world.remove(claim)
    assert [change.is_freed for change in world.allocated_devices.since(at) or ()] == [False, True]
