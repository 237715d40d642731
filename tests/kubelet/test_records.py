"""Records of pods on a node: legal transitions between states, counted requests, and the backoff of restarts."""

import asyncio
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.host.backoff import Backoff
from sampan.kubelet.records import (
    ACTIVE,
    ENDED_STATES,
    TRANSITIONS,
    ContainerBackoff,
    IllegalTransition,
    NodeRecord,
    PodRecord,
    PodSyncState,
)

UNUSED: Any = None
PAIRS = [(before, after) for before in PodSyncState for after in PodSyncState]


def record(state: PodSyncState = PodSyncState.NEW, *, uid: str = "u") -> PodRecord:
    pod = json.from_value({"metadata": {"name": "p", "uid": uid}, "spec": {"containers": [{"name": "c"}]}}, Pod)
    node = NodeRecord(name="n", client=UNUSED, runtime=UNUSED, machine=UNUSED, api_node=UNUSED)
    pod_record = PodRecord(node=node, pod=pod)
    pod_record.state = state
    return pod_record


def test_every_state_has_transitions() -> None:
    assert set(TRANSITIONS) == set(PodSyncState)


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda state: state.value)
def test_illegal_transitions_are_rejected(before: PodSyncState, after: PodSyncState) -> None:
    pod_record = record(before)
    if after is before or after in TRANSITIONS[before]:
        pod_record.move_to(after)
        assert pod_record.state is after
    else:
        with pytest.raises(IllegalTransition, match=f"{before.value} to {after.value}"):
            pod_record.move_to(after)
        assert pod_record.state is before


def test_transitions_have_no_cycles() -> None:
    """No state can be reached from itself, so every pod comes to an end after finitely many changes."""
    for state in PodSyncState:
        reachable, queue = set[PodSyncState](), list(TRANSITIONS[state])
        while queue:
            after = queue.pop()
            if after not in reachable:
                reachable.add(after)
                queue += TRANSITIONS[after]
        assert state not in reachable


def test_every_state_can_be_reached_and_left() -> None:
    reached = {after for states in TRANSITIONS.values() for after in states}
    assert reached == set(PodSyncState) - {PodSyncState.NEW}
    assert [state for state, states in TRANSITIONS.items() if not states] == [PodSyncState.REMOVED]


def test_active_and_ended_states_are_disjoint() -> None:
    assert not ACTIVE & ENDED_STATES
    assert set(PodSyncState) - ACTIVE - ENDED_STATES == {PodSyncState.TERMINATING}


def test_requests_are_counted_and_freed_once() -> None:
    pod_record = record()
    pod_record.count({"cpu": 500})
    assert (pod_record.node.used, pod_record.node.pods) == ({"cpu": 500}, {"u"})
    pod_record.free()
    pod_record.free()
    assert (pod_record.node.used, pod_record.node.pods) == ({"cpu": 0}, set())


async def test_interrupt_sets_the_interruption_event() -> None:
    progress = record().progress
    progress.interrupt()  # There is no event to set.
    progress.interruption = asyncio.Event()
    progress.interrupt()
    await progress.interruption.wait()


def test_the_back_off_doubles_up_to_five_minutes() -> None:
    back_off, now, pauses = ContainerBackoff(), 1000.0, []
    for _ in range(8):
        now += back_off.remaining_s(now, now)
        back_off.lengthen(now, now)
        pauses.append(back_off.delay_s)
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


def test_the_first_retry_does_not_wait() -> None:
    assert ContainerBackoff().remaining_s(1000, 1000) == 0


def test_the_back_off_is_counted_from_the_failure() -> None:
    back_off = ContainerBackoff()
    back_off.lengthen(1000, 1000)
    assert back_off.remaining_s(1003, 1005) == 8
    assert back_off.remaining_s(1003, 1013) == 0


def test_the_back_off_is_reset_after_ten_minutes_without_failures() -> None:
    back_off = ContainerBackoff(delay_s=160, since=1000)
    assert back_off.remaining_s(1600, 1600) == 160
    assert back_off.remaining_s(1601, 1601) == 0
    back_off.lengthen(1601, 1601)
    assert back_off.delay_s == 10


def test_the_longest_back_off_can_be_configured() -> None:
    back_off, pauses = ContainerBackoff(Backoff(10, 25)), []
    for _ in range(4):
        back_off.lengthen(back_off.since, back_off.since)
        pauses.append(back_off.delay_s)
    assert pauses == [10, 20, 25, 25]
    short = ContainerBackoff(Backoff(10, 1))
    short.lengthen(0, 0)
    assert short.delay_s == 1
