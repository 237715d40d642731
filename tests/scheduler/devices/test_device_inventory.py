"""Which pools nodes see, and cached allocations compared with those of a fresh simulation."""

from typing import Any

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import ResourceSlice
from tests.scheduler.devices.device_world import (
    World,
    allocated_claim,
    claim,
    device,
    exact_request,
    first_available_request,
    result,
    slice_of,
    subrequest,
)

NAMES = ("n0", "n1", "n2")


def node(name: str, zone: str = "a") -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={"zone": zone}))


def zone(value: str) -> NodeSelector:
    requirement = NodeSelectorRequirement(key="zone", operator="In", values=[value])
    return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=[requirement])])


@st.composite
def slices(draw: Any, at: int) -> ResourceSlice:
    pool = draw(st.sampled_from(["p", "q"]))
    there = [device(f"d{at}-{number}") for number in range(draw(st.integers(1, 2)))]
    more: dict[str, Any] = {"name": f"s{at}", "pool": pool, "generation": draw(st.sampled_from([1, 1, 1, 2]))}
    more["count"] = draw(st.sampled_from([1, 1, 2]))
    kind = draw(st.sampled_from(["local", "local", "zone", "all", "each"]))
    if kind == "each":
        for device_ in there:
            device_.nodeName = draw(st.sampled_from([None, *NAMES]))
            device_.allNodes = None if device_.nodeName else True
        return slice_of(there, node=None, perDeviceNodeSelection=True, **more)
    if kind == "local":
        return slice_of(there, node=draw(st.sampled_from(NAMES)), **more)
    if kind == "zone":
        return slice_of(there, node=None, nodeSelector=zone(draw(st.sampled_from("ab"))), **more)
    return slice_of(there, node=None, allNodes=True, **more)


steps = st.lists(
    st.tuples(st.sampled_from(["slice", "slice", "gone", "take", "take", "free", "move", "leave"]), st.integers(0, 3)),
    max_size=8,
)


@hypothesis.settings(max_examples=50, deadline=None)
@given(st.data(), steps)
def test_cached_allocations_equal_fresh_allocations(data: Any, steps: list[tuple[str, int]]) -> None:
    """Cached results are right after any changes of slices, claims and nodes."""
    nodes = {name: node(name) for name in NAMES}
    there: dict[str, ResourceSlice] = {}
    claims: dict[str, Any] = {}
    world = World(nodes=list(nodes.values()))
    claim_sets = [
        [claim(exact_request("r"))],
        [claim(first_available_request("r", subrequest("two", 2), subrequest("one")))],
    ]
    caches = [(world.make_cache(*cached_claims), cached_claims) for cached_claims in claim_sets]
    for action, at in steps:
        if action == "slice":
            drawn = data.draw(slices(at))
            there[drawn.metadata.name] = drawn
            world.put(drawn)
        elif action == "gone" and f"s{at}" in there:
            world.remove(there.pop(f"s{at}"))
        elif action == "take":
            drawn = allocated_claim(result(f"d{at}-0", data.draw(st.sampled_from(["p", "q"]))), name=f"t{at}")
            claims[f"t{at}"] = drawn
            world.put(drawn)
        elif action == "free" and f"t{at}" in claims:
            world.remove(claims.pop(f"t{at}"))
        elif action == "move":
            name = NAMES[at % 3]
            nodes[name] = node(name, data.draw(st.sampled_from("ab")))
            world.simulation.add_node(nodes[name])
        elif action == "leave":
            name = NAMES[at % 3]
            if nodes.pop(name, None) is not None:
                world.simulation.table.remove_node(name)
        fresh = World(list(there.values()), nodes=list(nodes.values()))
        for claim_ in claims.values():
            fresh.put(claim_)
        for name in nodes:
            for allocation_cache, cached_claims in caches:
                assert world.outcome_of(allocation_cache, cached_claims, name) == fresh.allocate(
                    *cached_claims, node=name
                ), (
                    action,
                    at,
                    name,
                )


def test_only_the_newest_generation_of_a_pool_is_visible_on_its_node() -> None:
    old, new = slice_of([device("old")], generation=1), slice_of([device("new")], generation=2)
    world = World([old, new], nodes=[node("n"), node("other")])
    assert world.devices_of(claim(exact_request("r"))) == [[("r", "new")]]
    assert world.devices_of(claim(exact_request("r")), node="other") == "cannot allocate all claims"
    assert (
        World([slice_of([device("d")], count=2)]).devices_of(claim(exact_request("r"))) == "cannot allocate all claims"
    )


def test_nodes_with_equal_views_share_a_number() -> None:
    local = [slice_of([device("d")], node=f"l{at}", pool=f"l{at}") for at in range(2)]
    wide = slice_of([device("d")], node=None, nodeSelector=zone("b"), pool="wide")
    names = ["l0", "l1", "bare0", "bare1"]
    world = World([*local, wide], nodes=[*map(node, names), node("b0", "b"), node("b1", "b")])
    world.views.refresh()
    numbers = {name: int(world.views.numbers[row]) for name, row in world.simulation.table.rows.items()}
    assert numbers["bare0"] == numbers["bare1"] == 0
    assert numbers["b0"] == numbers["b1"]
    assert len({*numbers.values()}) == 4
    assert numbers["l0"] != numbers["l1"]


def test_nodes_with_equal_pools_share_one_search() -> None:
    """Four nodes see only the pool of all nodes; the fifth has a pool of its own besides."""
    other = slice_of([device("x", "b")], node="n0", pool="own")
    wide = slice_of([device("d")], node=None, allNodes=True, pool="wide")
    world = World([other, wide], nodes=[node(f"n{at}") for at in range(5)])
    selective_claim = claim(exact_request("r", selectors=[]))
    allocation_cache = world.make_cache(selective_claim)
    for at in range(5):
        world.outcome_of(allocation_cache, [selective_claim], f"n{at}")
    assert len(allocation_cache._allocations) == 2
