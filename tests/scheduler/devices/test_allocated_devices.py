"""Allocated devices: those of claims in the informer, and pending allocations that are not written yet."""

from typing import Any

from sampan.api.types.resource_v1 import ResourceClaim
from sampan.api.values.quantity import parse
from sampan.scheduler.devices.pools import DeviceId, PoolId
from tests.scheduler.devices.device_world import DRIVER, World, allocated_claim, claim, result

POOL = PoolId(DRIVER, "p")


def allocated_names(world: World) -> set[str]:
    return {name for name in ("d0", "d1") if world.allocated_devices.is_taken(DeviceId(DRIVER, "p", name))}


def add_pending_claim(world: World, name: str, device: str) -> ResourceClaim:
    claim = allocated_claim(result(device), name=name)
    assert claim.status.allocation is not None
    world.allocated_devices.add_pending(name, claim.status.allocation)
    return claim


def test_pending_allocation_counts_until_the_claim_shows_it() -> None:
    world = World()
    pending_claim = add_pending_claim(world, "c", "d0")
    assert allocated_names(world) == {"d0"}
    world.put(claim(name="c"))
    assert allocated_names(world) == {"d0"}, "the allocation is not written yet"
    position = world.allocated_devices.position
    world.put(pending_claim)
    assert allocated_names(world) == {"d0"}
    assert world.allocated_devices.list_changes_since(position) == [], "no change is recorded"
    assert not world.allocated_devices.is_pending("c")
    world.remove(pending_claim)
    assert allocated_names(world) == set()


def test_removed_pending_allocation_frees_the_device() -> None:
    world = World()
    add_pending_claim(world, "c", "d0")
    world.allocated_devices.remove_pending("c")
    assert allocated_names(world) == set()
    world.allocated_devices.remove_pending("c")
    assert allocated_names(world) == set()


def test_written_allocation_counts_until_a_newer_claim_is_seen() -> None:
    world = World()
    add_pending_claim(world, "c", "d0")
    world.allocated_devices.note_written("c", "2")
    world.allocated_devices.remove_pending("c")
    assert allocated_names(world) == {"d0"}, "the written allocation counts"
    world.put(claim(name="c"))
    assert allocated_names(world) == {"d0"}, "an older claim does not free the device"
    world.put(claim(name="c"))
    assert allocated_names(world) == set(), "a newer claim without allocation frees the device"


def test_pending_allocation_moves_to_the_uid_of_the_created_claim() -> None:
    world = World()
    add_pending_claim(world, "placeholder", "d0")
    world.allocated_devices.replace_uid("placeholder", "c")
    world.allocated_devices.remove_pending("placeholder")
    assert allocated_names(world) == {"d0"}
    claim = allocated_claim(result("d0"), name="c")
    world.put(claim)
    assert world.allocated_devices.get_pool_use(POOL)["d0"].owners == 1
    world.remove(claim)
    assert allocated_names(world) == set()


def test_allocation_in_the_informer_replaces_the_pending_allocation() -> None:
    world = World()
    add_pending_claim(world, "c", "d0")
    world.put(allocated_claim(result("d1"), name="c"))
    assert allocated_names(world) == {"d1"}


def test_consumed_capacity_of_shares_is_added_up() -> None:
    def part(amount: str, id: str) -> Any:
        return result("d0", shareID=id, consumedCapacity={"memory": amount})

    world = World()
    first, second = (
        allocated_claim(part("1Gi", "a"), part("2Gi", "b"), name="c"),
        allocated_claim(part("512Mi", "c"), name="d"),
    )
    world.put(first)
    world.put(second)
    id = DeviceId(DRIVER, "p", "d0")
    assert world.allocated_devices.get_consumed_capacity(id) == {"memory": parse("3584Mi")}
    assert not world.allocated_devices.is_taken(id)
    assert world.allocated_devices.is_shared(id)
    world.remove(first)
    assert world.allocated_devices.get_consumed_capacity(id) == {"memory": parse("512Mi")}
    world.remove(second)
    assert not world.allocated_devices.is_shared(id)


def test_changes_show_whether_devices_were_freed() -> None:
    world = World()
    position = world.allocated_devices.position
    claim = allocated_claim(result("d0"))
    world.put(claim)
    world.remove(claim)
    assert [change.is_freed for change in world.allocated_devices.list_changes_since(position) or ()] == [False, True]
