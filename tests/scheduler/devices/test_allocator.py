"""Allocation of devices for claims: comparison with brute force, and each rule by itself."""

from fractions import Fraction
from itertools import product
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    Counter,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceTaint,
    DeviceToleration,
    ResourceSlice,
)
from tests.scheduler.devices.brute_force_allocator import first_valid_allocation
from tests.scheduler.devices.device_world import (
    DRIVER,
    World,
    all_devices_request,
    allocated_claim,
    cel,
    claim,
    device,
    exact_request,
    first_available_request,
    result,
    slice_of,
    subrequest,
)

TOO_FEW = "cannot allocate all claims"
LINK = f"{DRIVER}/link"
TAINT = DeviceTaint(key="k", value="v", effect="NoSchedule")
TOLERATION = DeviceToleration(key="k", operator="Exists")
POLICIES = (
    None,
    CapacityRequestPolicy(default="1", validValues=["1", "2", "4"]),
    CapacityRequestPolicy(default="2", validRange=CapacityRequestPolicyRange(min="1", max="4", step="2")),
    CapacityRequestPolicy(default="2", validRange=CapacityRequestPolicyRange(min="2")),
    CapacityRequestPolicy(default="1"),
)


def model(name: str) -> list[Any]:
    return cel(f'device.attributes["{DRIVER}"].model == "{name}"') if name else []


def memory(amount: str, policy: CapacityRequestPolicy | None = None) -> dict[str, DeviceCapacity]:
    return {"memory": DeviceCapacity(value=amount, requestPolicy=policy)}


def card_counters(amount: str) -> list[DeviceCounterConsumption]:
    return [DeviceCounterConsumption(counterSet="card", counters={"memory": Counter(value=amount)})]


def card(amount: str, count: int = 2) -> ResourceSlice:
    sets = [CounterSet(name="card", counters={"memory": Counter(value=amount)})]
    return slice_of([], node=None, allNodes=True, name="p-card", count=count, sharedCounters=sets)


@st.composite
def devices(draw: Any, at: int) -> Device:
    new_device = device(f"d{at}", draw(st.sampled_from("ab")), draw(st.sampled_from([None, 1, 2])))
    if draw(st.booleans()):
        new_device.capacity = memory(draw(st.sampled_from(["3", "4"])), draw(st.sampled_from(POLICIES)))
        new_device.allowMultipleAllocations = draw(st.sampled_from([None, True]))
    if draw(st.booleans()):
        new_device.consumesCounters = card_counters(draw(st.sampled_from(["1", "2"])))
    new_device.taints = draw(st.sampled_from([[], [], [TAINT]]))
    return new_device


device_requests = st.fixed_dictionaries(
    {
        "selectors": st.sampled_from([[], [], model("a"), model("b")]),
        "tolerations": st.sampled_from([[], [], [TOLERATION]]),
        "capacity": st.sampled_from(
            [
                None,
                None,
                CapacityRequirements(requests={"memory": "1500m"}),
                CapacityRequirements(requests={"memory": "3"}),
            ]
        ),
    }
)


@st.composite
def requests(draw: Any, at: int) -> Any:
    kind = draw(st.sampled_from(["exactly", "exactly", "all", "either"]))
    if kind == "either":
        return first_available_request(
            f"r{at}",
            *(subrequest(f"s{number}", draw(st.integers(1, 2)), **draw(device_requests)) for number in range(2)),
        )
    more = {**draw(device_requests), "adminAccess": draw(st.sampled_from([None, None, None, True]))}
    return (
        all_devices_request(f"r{at}", **more)
        if kind == "all"
        else exact_request(f"r{at}", draw(st.integers(1, 2)), **more)
    )


@st.composite
def claims(draw: Any, at: int) -> Any:
    drawn = [draw(requests(number)) for number in range(draw(st.integers(1, 2)))]
    constraints = draw(
        st.lists(
            st.sampled_from(
                [
                    DeviceConstraint(matchAttribute=LINK),
                    DeviceConstraint(matchAttribute=LINK, requests=["r0"]),
                    DeviceConstraint(distinctAttribute=LINK),
                    DeviceConstraint(distinctAttribute=LINK, requests=["r0/s1", "r1"]),
                ]
            ),
            max_size=1,
        )
    )
    return claim(*drawn, constraints=constraints, name=f"c{at}")


@hypothesis.settings(max_examples=120, deadline=None)
@given(st.data())
def test_allocation_matches_brute_force(data: Any) -> None:
    pool_devices = [data.draw(devices(at)) for at in range(data.draw(st.integers(1, 4)))]
    claims_ = [data.draw(claims(at)) for at in range(data.draw(st.integers(1, 2)))]
    world = World([slice_of(pool_devices, count=2), card("3")])
    in_use, used = [], {}
    for device_ in pool_devices:
        if data.draw(st.sampled_from([False, False, True])):
            if device_.allowMultipleAllocations:
                world.put(
                    allocated_claim(
                        result(device_.name, shareID="s", consumedCapacity={"memory": "1"}), name=device_.name
                    )
                )
                used[device_.name] = [{"memory": Fraction(1)}]
            else:
                world.put(allocated_claim(result(device_.name), name=device_.name))
                in_use.append(device_.name)
    allocation = world.devices_of(*claims_)
    expected = first_valid_allocation(claims_, pool_devices, in_use, used, {"memory": Fraction(3)})
    if isinstance(allocation, str) and "a claim constraint would not be satisfied" in allocation:
        return  # a constraint excludes a request for all devices: other alternatives are not tried
    assert (None if isinstance(allocation, str) else allocation) == expected


def test_search_backtracks_between_claims() -> None:
    world = World([slice_of([device("d0", "a"), device("d1", "b")])])
    selective_claim = claim(exact_request("r", selectors=model("a")))
    assert world.devices_of(claim(exact_request("r")), selective_claim) == [[("r", "d1")], [("r", "d0")]], (
        "the search backtracks"
    )
    assert world.devices_of(claim(exact_request("r", 2)), selective_claim) == TOO_FEW


def test_no_device_is_allocated_twice() -> None:
    world = World([slice_of([device(f"d{at}") for at in range(4)])])
    for first, second in product(range(1, 4), repeat=2):
        got = world.devices_of(claim(exact_request("r", first)), claim(exact_request("r", second)))
        assert (got != TOO_FEW) == (first + second <= 4)


class TestAllocationModeAll:
    def test_all_devices_are_allocated_or_none(self) -> None:
        world = World([slice_of([device("d0"), device("d1")])])
        assert world.devices_of(claim(all_devices_request("r"))) == [[("r", "d0"), ("r", "d1")]]
        world.put(allocated_claim(result("d1")))
        assert world.devices_of(claim(all_devices_request("r"))) == TOO_FEW

    def test_incomplete_pool_is_rejected(self) -> None:
        message = (
            "claim x/c, request r: asks for all devices, but resource pool gpu.example.com/p is currently being updated"
        )
        assert World([slice_of([device("d0")], count=2)]).devices_of(claim(all_devices_request("r"))) == message

    def test_invalid_pool_is_rejected(self) -> None:
        duplicate_devices = slice_of([device("d0"), device("d0")])
        message = "claim x/c, request r: asks for all devices, but resource pool gpu.example.com/p is currently invalid"
        assert World([duplicate_devices]).devices_of(claim(all_devices_request("r"))) == message
        assert (
            World([duplicate_devices]).devices_of(claim(exact_request("r")))
            == "invalid resource pools were encountered"
        )

    def test_devices_that_violate_a_constraint_are_rejected(self) -> None:
        world = World([slice_of([device("d0", link=1), device("d1", link=2)])])
        message = "cannot add device gpu.example.com/p/d1 because a claim constraint would not be satisfied"
        same = [DeviceConstraint(matchAttribute=LINK)]
        assert world.devices_of(claim(all_devices_request("r"), constraints=same)) == f"claim x/c, request r: {message}"

    def test_more_than_32_devices_are_rejected(self) -> None:
        world = World([slice_of([device(f"d{at}") for at in range(33)])])
        message = "claim x/c: number of requested devices 33 exceeds the claim limit of 32"
        assert world.devices_of(claim(all_devices_request("r"))) == message


class TestAdminAccess:
    def test_devices_in_use_are_allocated(self) -> None:
        world = World([slice_of([device("d0"), device("d1")])])
        world.put(allocated_claim(result("d0"), result("d1")))
        admin = claim(exact_request("r", 2, adminAccess=True))
        assert world.devices_of(admin) == [[("r", "d0"), ("r", "d1")]]
        allocation = world.allocate(admin)
        assert not isinstance(allocation, str)
        assert [result.adminAccess for result in allocation[0].devices.results] == [True, True]

    def test_devices_with_admin_access_stay_available(self) -> None:
        world = World([slice_of([device("d0")])])
        world.put(allocated_claim(result("d0", adminAccess=True)))
        assert world.devices_of(claim(exact_request("r"))) == [[("r", "d0")]]

    def test_device_is_not_allocated_twice_in_a_claim(self) -> None:
        world = World([slice_of([device("d0")])])
        own, admin = exact_request("r"), exact_request("a", adminAccess=True)
        assert world.devices_of(claim(own, admin)) == TOO_FEW
        assert world.devices_of(claim(own), claim(admin)) == [[("r", "d0")], [("a", "d0")]]

    def test_taints_must_be_tolerated(self) -> None:
        world = World([slice_of([device("d0", taints=[TAINT])])])
        assert world.devices_of(claim(exact_request("a", adminAccess=True))) == TOO_FEW


def test_first_available_alternatives_are_tried_in_order() -> None:
    request = first_available_request("r", subrequest("many", 3), subrequest("few", 1))
    world = World([slice_of([device(f"d{at}") for at in range(3)])])
    assert world.devices_of(claim(request)) == [[("r/many", f"d{at}") for at in range(3)]]
    world.put(allocated_claim(result("d0")))
    assert world.devices_of(claim(request)) == [[("r/few", "d1")]]


def test_alternative_beyond_32_devices_is_skipped() -> None:
    world = World([slice_of([device(f"d{at}") for at in range(40)])])
    wide = claim(exact_request("first", 20), first_available_request("r", subrequest("many", 20), subrequest("few", 2)))
    assert world.devices_of(wide)[0][-1] == ("r/few", "d21")


def test_device_taints_and_tolerations() -> None:
    def is_allocated(taint: DeviceTaint, *tolerations: DeviceToleration) -> bool:
        world = World([slice_of([device("d", taints=[taint])])])
        return bool(world.devices_of(claim(exact_request("r", tolerations=list(tolerations)))) == [[("r", "d")]])

    assert not is_allocated(TAINT)
    assert is_allocated(DeviceTaint(key="k", effect="None"))
    assert is_allocated(TAINT, TOLERATION)
    assert is_allocated(TAINT, DeviceToleration(operator="Exists"))
    assert is_allocated(TAINT, DeviceToleration(key="k", operator="Equal", value="v", effect="NoSchedule"))
    assert not is_allocated(TAINT, DeviceToleration(key="k", operator="Equal", value="w"))
    assert not is_allocated(TAINT, DeviceToleration(key="k", operator="Exists", effect="NoExecute"))


class TestCounters:
    def part(self, name: str, amount: str, **more: Any) -> Device:
        return device(name, consumesCounters=card_counters(amount), **more)

    def test_devices_share_counters(self) -> None:
        parts = [self.part("whole", "40Gi"), self.part("half-0", "20Gi"), self.part("half-1", "20Gi")]
        world = World([slice_of(parts, count=2), card("40Gi")])
        assert world.devices_of(claim(exact_request("r", 2))) == [[("r", "half-0"), ("r", "half-1")]]
        assert world.devices_of(claim(exact_request("r", 3))) == TOO_FEW
        world.put(allocated_claim(result("half-0")))
        assert world.devices_of(claim(exact_request("r"))) == [[("r", "half-1")]]

    def test_devices_of_other_nodes_consume_counters(self) -> None:
        slices = [
            slice_of([self.part("here", "1")], name="a", count=3),
            slice_of([self.part("there", "1")], name="b", node="m", count=3),
            card("1", count=3),
        ]
        world = World(slices)
        assert world.devices_of(claim(exact_request("r"))) == [[("r", "here")]]
        world.put(allocated_claim(result("there")))
        assert world.devices_of(claim(exact_request("r"))) == TOO_FEW

    def test_overcommitted_counters_block_only_devices_that_consume_them(self) -> None:
        """A driver may lower a counter below what allocated devices consume."""
        parts = [self.part("d0", "2"), self.part("d1", "2"), self.part("d2", "1"), device("d3")]
        world = World([slice_of(parts, count=2), card("3")])
        world.put(allocated_claim(result("d0"), result("d1")))
        assert world.devices_of(claim(exact_request("r"))) == [[("r", "d3")]]
        assert world.devices_of(claim(exact_request("r", 2))) == TOO_FEW

    def test_shared_device_consumes_counters_once(self) -> None:
        parts = [self.part("d0", "1", allowMultipleAllocations=True), self.part("d1", "1")]
        world = World([slice_of(parts, count=2), card("1")])
        assert world.devices_of(claim(exact_request("r")), claim(exact_request("r"))) == [[("r", "d0")]] * 2
        world.put(allocated_claim(result("d0", shareID="s")))
        assert world.devices_of(claim(exact_request("r"))) == [[("r", "d0")]]
        assert world.devices_of(claim(exact_request("r", 2))) == TOO_FEW

    def test_undeclared_counter_set_makes_the_pool_invalid(self) -> None:
        world = World([slice_of([self.part("d0", "1")])])
        assert world.devices_of(claim(exact_request("r"))) == "invalid resource pools were encountered"

    def test_backtracking_releases_counters(self) -> None:
        """The counters of d0 are free again after the constraint rejected it."""
        parts = [self.part("d0", "1", link=1), self.part("d1", "1", link=2), self.part("d2", "1", link=2)]
        world = World([slice_of(parts, count=2), card("2")])
        same = [DeviceConstraint(matchAttribute=LINK)]
        assert world.devices_of(claim(exact_request("r", 2), constraints=same)) == [[("r", "d1"), ("r", "d2")]]


class TestCapacity:
    def amounts(self, world: World, *sizes: str | None) -> Any:
        """The device of each claim and how much of its memory the claim gets."""
        claims_ = [
            claim(
                exact_request("r", capacity=CapacityRequirements(requests={"memory": size}) if size else None),
                name=f"c{at}",
            )
            for at, size in enumerate(sizes)
        ]
        allocation = world.allocate(*claims_)
        if isinstance(allocation, str):
            return allocation
        results = [allocation.devices.results[0] for allocation in allocation]
        return [(result.device, result.consumedCapacity.get("memory")) for result in results]

    def world(self, amount: str, policy: CapacityRequestPolicy | None) -> World:
        return World([slice_of([device("d", allowMultipleAllocations=True, capacity=memory(amount, policy))])])

    def test_claims_share_a_device(self) -> None:
        world = self.world("10Gi", None)
        assert self.amounts(world, "6Gi", "4Gi") == [("d", "6Gi"), ("d", "4Gi")]
        assert self.amounts(world, "6Gi", "5Gi") == TOO_FEW
        world.put(allocated_claim(result("d", shareID="s", consumedCapacity={"memory": "8Gi"})))
        assert self.amounts(world, "2Gi") == [("d", "2Gi")]
        assert self.amounts(world, "3Gi") == TOO_FEW

    def test_every_share_has_a_share_id(self) -> None:
        world = self.world("10Gi", CapacityRequestPolicy(default="1Gi"))
        allocation = world.allocate(claim(exact_request("r"), exact_request("s")))
        assert not isinstance(allocation, str)
        ids = [result.shareID for result in allocation[0].devices.results]
        assert len(set(ids)) == 2
        assert None not in ids

    @pytest.mark.parametrize(
        ("policy", "requested", "gets"),
        [
            (None, None, "8Gi"),
            (None, "3Gi", "3Gi"),
            (POLICIES[1], None, "1"),
            (POLICIES[1], "3", "4"),
            (POLICIES[1], "5", None),
            (CapacityRequestPolicy(default="1Gi", validRange=CapacityRequestPolicyRange(min="1Gi")), "5", "1Gi"),
            (CapacityRequestPolicy(default="1Gi", validRange=CapacityRequestPolicyRange(min="1Gi")), "3Gi", "3Gi"),
            (
                CapacityRequestPolicy(default="1Gi", validRange=CapacityRequestPolicyRange(min="1Gi", step="2Gi")),
                "4Gi",
                "5Gi",
            ),
            (
                CapacityRequestPolicy(default="1Gi", validRange=CapacityRequestPolicyRange(min="1Gi", max="4Gi")),
                "5Gi",
                None,
            ),
            (None, "9Gi", None),
        ],
    )
    def test_request_policies(
        self, policy: CapacityRequestPolicy | None, requested: str | None, gets: str | None
    ) -> None:
        expected = TOO_FEW if gets is None else [("d", gets)]
        assert self.amounts(self.world("8Gi", policy), requested) == expected

    def test_unshared_device_must_have_the_requested_capacity(self) -> None:
        slices = [slice_of([device("d0", capacity=memory("1Gi")), device("d1", capacity=memory("2Gi"))])]
        assert self.amounts(World(slices), "2Gi") == [("d1", None)]

    def test_device_without_the_requested_capacity_is_skipped(self) -> None:
        world = World([slice_of([device("d0"), device("d1", capacity=memory("2Gi"))])])
        assert self.amounts(world, "1Gi") == [("d1", None)]

    def test_distinct_attribute_separates_shares(self) -> None:
        shared = [device(f"d{at}", link=at, allowMultipleAllocations=True, capacity=memory("4Gi")) for at in range(2)]
        apart = [DeviceConstraint(distinctAttribute=LINK)]
        amount = CapacityRequirements(requests={"memory": "1Gi"})
        requests_ = [exact_request("r", capacity=amount), exact_request("s", capacity=amount)]
        world = World([slice_of(shared)])
        assert world.devices_of(claim(*requests_)) == [[("r", "d0"), ("s", "d0")]]
        assert world.devices_of(claim(*requests_, constraints=apart)) == [[("r", "d0"), ("s", "d1")]]


class TestSelectors:
    def test_runtime_error_is_reported(self) -> None:
        world = World([slice_of([device("d0"), device("d1", link=1)])])
        selective_claim = claim(exact_request("r", selectors=cel(f'device.attributes["{DRIVER}"].link == 1')))
        message = world.devices_of(selective_claim)
        assert message.startswith("claim x/c: selector #0: CEL runtime error: ")
        assert "link" in message
        world.put(allocated_claim(result("d0")))
        assert world.devices_of(selective_claim) == [[("r", "d1")]], "allocated devices are not evaluated"

    def test_compile_error_is_reported(self) -> None:
        world = World([slice_of([device("d0")])])
        assert world.devices_of(claim(exact_request("r", selectors=cel("this is none")))).startswith(
            "claim x/c: selector #0: CEL compile error: "
        )

    @pytest.mark.parametrize("count", [7, 10])
    def test_a_stored_selector_that_would_fill_the_memory_is_stopped(self, count: int) -> None:
        """The server rejects such a selector, but one that an older version stored is still evaluated."""
        attack = '"aaaaaaaaaa"' + '.replace("a", "aaaaaaaaaa")' * count + '.contains("b")'
        world = World([slice_of([device("d0")])])
        assert world.devices_of(claim(exact_request("r", selectors=cel(attack)))) == (
            "claim x/c: selector #0: CEL runtime error: operation cancelled: actual cost limit exceeded"
        )


def test_node_selector_of_the_allocation() -> None:
    def zone(value: str) -> NodeSelector:
        expected = NodeSelectorRequirement(key="zone", operator="In", values=[value])
        return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=[expected])])

    def get_node_selector(*slices: ResourceSlice) -> Any:
        node = Node(metadata=ObjectMeta(name="n", labels={"zone": "a"}))
        allocation = World(slices, nodes=[node]).allocate(claim(exact_request("r", len(slices))))
        assert not isinstance(allocation, str), allocation
        return allocation[0].nodeSelector

    wide = slice_of([device("d")], node=None, nodeSelector=zone("a"), pool="wide")
    wider = slice_of([device("d")], node=None, nodeSelector=zone("a"), pool="wider")
    everywhere = slice_of([device("d")], node=None, allNodes=True, pool="every")
    bound = slice_of([device("d", bindsToNode=True)], node=None, allNodes=True, pool="bound")
    only = NodeSelectorTerm(matchFields=[NodeSelectorRequirement(key="metadata.name", operator="In", values=["n"])])
    assert get_node_selector(everywhere) is None
    assert get_node_selector(wide, wider, everywhere) == zone("a")
    assert get_node_selector(wide, slice_of([device("d")])).nodeSelectorTerms == [only]
    assert get_node_selector(bound).nodeSelectorTerms == [only]


def test_devices_with_binding_conditions_are_allocated_last() -> None:
    late = slice_of([device("d", bindingConditions=["ready"], bindingFailureConditions=["failed"])], pool="a")
    world = World([late, slice_of([device("e")], pool="b")])
    assert world.devices_of(claim(exact_request("r"))) == [[("r", "e")]]
    allocation = world.allocate(claim(exact_request("r", 2)))
    assert not isinstance(allocation, str)
    assert [result.bindingConditions for result in allocation[0].devices.results] == [[], ["ready"]]
    assert [result.bindingFailureConditions for result in allocation[0].devices.results] == [[], ["failed"]]


def test_search_stops_at_the_step_limit() -> None:
    """Seven devices with distinct links are requested, and there are only six links."""
    apart = [DeviceConstraint(distinctAttribute=LINK)]
    slices = [slice_of([device(f"d{at}", link=at % 6) for at in range(24)])]
    assert World(slices, max_steps=2000).devices_of(claim(exact_request("r", 7), constraints=apart)) == (
        "timed out trying to allocate devices"
    )
    assert World(slices, max_steps=0).devices_of(claim(exact_request("r", 7), constraints=apart)) == TOO_FEW
