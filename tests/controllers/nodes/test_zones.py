"""Zones: their states, and the rate at which their nodes are tainted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node
from sampan.controllers.nodes.zones import EvictionRates, ZoneQueue, Zones, ZoneState, ZoneTransition, state_of, zone_of
from tests.controllers.nodes.fleet import node_value

RATES = EvictionRates(normal=0.1, reduced=0.01, large=5, unhealthy_share=0.55)


def node(name: str, zone: str) -> Node:
    return codec.from_value(node_value(name, zone=zone), Node)


@pytest.mark.parametrize(
    ("ready", "unready", "state"),
    [
        (0, 0, ZoneState.NORMAL),
        (1, 0, ZoneState.NORMAL),
        (0, 1, ZoneState.FULL),
        (1, 1, ZoneState.NORMAL),
        (1, 2, ZoneState.NORMAL),
        (1, 3, ZoneState.PARTIAL),
        (3, 3, ZoneState.NORMAL),
        (9, 11, ZoneState.PARTIAL),
        (10, 10, ZoneState.NORMAL),
    ],
)
def test_zone_state_by_ready_nodes(ready: int, unready: int, state: ZoneState) -> None:
    assert state_of([True] * ready + [False] * unready, RATES) is state


@pytest.mark.parametrize(
    ("state", "size", "rate"),
    [
        (ZoneState.NORMAL, 1, 0.1),
        (ZoneState.FULL, 100, 0.1),
        (ZoneState.PARTIAL, 5, 0.0),
        (ZoneState.PARTIAL, 6, 0.01),
    ],
)
def test_taint_rate_by_zone_state_and_size(state: ZoneState, size: int, rate: float) -> None:
    assert RATES.select_rate(state, size) == rate


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ("", "")),
        ({"topology.kubernetes.io/zone": "a"}, ("", "a")),
        ({"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}, ("r", "a")),
        ({"failure-domain.beta.kubernetes.io/zone": "b"}, ("", "b")),
    ],
)
def test_the_zone_of_a_node(labels: dict[str, str], zone: tuple[str, str]) -> None:
    assert zone_of(codec.from_value(node_value("n", labels=labels), Node)) == zone


def test_queue_releases_nodes_in_order_at_its_rate() -> None:
    queue = ZoneQueue(0.1, 0)
    for name in ("a", "b", "c"):
        queue.add(name)
    queue.remove("b")
    assert (queue.take(0), queue.take(0)) == ("a", None)
    assert queue.next_in_s(0) == pytest.approx(10)
    queue.add("a")
    assert (queue.take(9.9), queue.take(10), queue.take(99)) == (None, "c", None)
    queue.requeue("a")
    assert (queue.take(99), queue.next_in_s(99)) == ("a", None)


def test_stopped_queue_accumulates_no_tokens() -> None:
    queue = ZoneQueue(0.1, 0)
    queue.add("a")
    queue.set_rate(0, 0)
    assert (queue.take(1000), queue.next_in_s(1000)) == (None, None)
    queue.set_rate(0.1, 1000)
    assert (queue.take(1000), queue.take(1010)) == (None, "a"), "a pause accumulates no tokens"


@given(st.lists(st.tuples(st.floats(0, 60), st.booleans()), max_size=30))
def test_queue_never_exceeds_its_rate(steps: list[tuple[float, bool]]) -> None:
    queue, now, released = ZoneQueue(0.1, 0), 0.0, []
    for index, (passed_s, is_new) in enumerate(steps):
        now += passed_s
        if is_new:
            queue.add(f"n{index}")
        if queue.take(now) is not None:
            released.append(now)
    assert all(later - earlier >= 10 - 1e-3 for earlier, later in pairwise(released))


def test_full_disruption_of_all_zones_stops_tainting() -> None:
    zones, a, b = Zones(RATES), ("", "a"), ("", "b")
    for name, zone in (("n1", "a"), ("n2", "b")):
        zones.queue(node(name, zone), 0).add(name)
    assert zones.update_states({a: [True], b: [True]}, 0) is ZoneTransition.NONE
    assert zones.update_states({a: [False], b: [True]}, 5) is ZoneTransition.NONE
    assert (zones.state(a), zones.state(b)) == (ZoneState.FULL, ZoneState.NORMAL)
    assert zones.queue(node("n1", "a"), 5).next_in_s(5) == 0, "the disruption of one zone keeps the normal rate"
    assert zones.update_states({a: [False], b: [False]}, 10) is ZoneTransition.LOST_ALL
    assert [queue.next_in_s(10) for queue in zones.queues()] == [None, None]
    assert zones.update_states({a: [False], b: [False]}, 15) is ZoneTransition.NONE
    assert zones.update_states({a: [False], b: [True]}, 20) is ZoneTransition.FOUND_SOME
    assert zones.queue(node("n1", "a"), 20).next_in_s(20) == pytest.approx(10)
    assert zones.update_states({}, 25) is ZoneTransition.NONE
