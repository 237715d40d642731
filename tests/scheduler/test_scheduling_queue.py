"""The scheduling queue: order, backoff, queueing hints, gates and nominations."""

import asyncio
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import VirtualClock
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from sampan.scheduler.cache.scheduler_cache import Nominator
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource
from sampan.scheduler.framework.contract import Code, Status
from sampan.scheduler.scheduling_queue import QueuedPodInfo, SchedulingQueue

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABELS = ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS)
POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
PODS = PodInfoTable()


def info(name: str, priority: int = 0) -> PodInfo:
    return PODS.info(Pod(metadata=ObjectMeta(name=name, namespace="n", uid=name), spec=PodSpec(priority=priority)))


class QueueHarness:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.gated: set[str] = set()
        self.queue = SchedulingQueue(
            clock=self.clock,
            sort_key=lambda pod, since: (-pod.priority, since),
            gate=lambda pod: Status(Code.UNRESOLVABLE, ("gated",), "G") if pod.name in self.gated else None,
            hints={
                NODE_ADD: [("Fit", None), ("Ports", None)],
                NODE_LABELS: [("Affinity", lambda pod, old, new: new == pod.name)],
                POD_DELETE: [("Fit", None)],
            },
        )

    def pop(self) -> str:
        entry = self.queue.pop()
        return entry.info.name if entry is not None else ""

    def fail(self, name: str, *plugins: str) -> QueuedPodInfo:
        """Pop the pod, and fail its attempt because of these plugins."""
        entry = self.queue.pop()
        assert entry is not None
        assert entry.info.name == name
        self.queue.requeue_unschedulable(entry, plugins)
        return entry


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


def test_pods_are_popped_by_priority_then_by_age(harness: QueueHarness) -> None:
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", -1), ("e", 5)):
        harness.queue.add(info(name, priority))
    assert [harness.pop() for _ in range(6)] == ["b", "e", "a", "c", "d", ""]


@pytest.mark.parametrize(
    ("plugins", "event", "new", "is_requeued"),
    [
        (["Fit"], NODE_ADD, None, True),
        (["Fit", "Affinity"], POD_DELETE, None, True),
        (["Affinity"], POD_DELETE, None, False),
        (["Affinity"], NODE_LABELS, "a", True),
        (["Affinity"], NODE_LABELS, "other", False),
        (["Fit"], ClusterEvent(EventResource.SERVICE, ActionType.ADD), None, False),
        ([], NODE_ADD, None, True),
        ([], POD_DELETE, None, False),
    ],
)
def test_queueing_hints_decide_which_events_requeue_a_pod(
    harness: QueueHarness, plugins: list[str], event: ClusterEvent, new: Any, is_requeued: bool
) -> None:
    harness.queue.add(info("a"))
    harness.fail("a", *plugins)
    assert harness.pop() == ""
    harness.queue.on_event(event, None, new)
    assert harness.pop() == ("a" if is_requeued else "")


def test_event_during_an_attempt_requeues_the_pod(harness: QueueHarness) -> None:
    harness.queue.add(info("a"))
    entry = harness.queue.pop()
    assert entry is not None
    harness.queue.on_event(NODE_ADD, None, None)
    harness.queue.requeue_unschedulable(entry, ["Fit"])
    assert harness.queue.counts()["backoff"] == 1


async def test_back_off_after_errors_doubles_up_to_ten_seconds(harness: QueueHarness) -> None:
    harness.queue.add(info("a"))
    for pause in (1, 2, 4, 8, 10, 10):
        entry = harness.queue.pop()
        assert entry is not None
        harness.queue.requeue_after_error(entry)
        await harness.clock.advance(pause - 0.01)
        assert harness.pop() == "", "the pod is in back-off"
        await harness.clock.advance(0.02)


def test_pods_in_back_off_are_popped_when_no_other_pod_is_active(harness: QueueHarness) -> None:
    harness.queue.add(info("a"))
    harness.fail("a", "Fit")
    harness.queue.on_event(NODE_ADD, None, None)
    assert harness.queue.counts()["backoff"] == 1
    harness.queue.add(info("b"))
    assert [harness.pop(), harness.pop()] == ["b", "a"]


async def test_unschedulable_pods_are_retried_after_five_minutes(harness: QueueHarness) -> None:
    harness.queue.add(info("a"))
    harness.fail("a", "Fit")
    await harness.clock.advance(299)
    assert harness.pop() == ""
    await harness.clock.advance(2)
    assert harness.pop() == "a"


async def test_wait_ends_when_a_pod_is_added_or_its_back_off_ends(harness: QueueHarness) -> None:
    waiting = asyncio.ensure_future(harness.queue.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    harness.queue.add(info("a"))
    await waiting
    entry = harness.queue.pop()
    assert entry is not None
    harness.queue.requeue_after_error(entry)
    next_pod = asyncio.ensure_future(_wait_for_pod(harness))
    await harness.clock.advance(1)
    assert await next_pod == "a"


async def _wait_for_pod(harness: QueueHarness) -> str:
    while not (name := harness.pop()):
        await harness.queue.wait()
    return name


def test_gated_pod_is_not_popped_until_its_gate_is_removed(harness: QueueHarness) -> None:
    harness.gated.add("a")
    harness.queue.add(info("a"))
    assert harness.pop() == ""
    assert harness.queue.counts()["gated"] == 1
    harness.queue.on_event(NODE_ADD, None, None)
    assert harness.pop() == ""
    harness.gated.clear()
    harness.queue.update(info("a"))
    assert harness.pop() == "a"


def test_removed_pods_are_not_popped(harness: QueueHarness) -> None:
    harness.queue.add(info("a"))
    harness.queue.add(info("b"))
    harness.fail("a", "Fit")
    harness.queue.remove("a")
    harness.queue.on_event(NODE_ADD, None, None)
    harness.queue.remove("b")
    assert harness.pop() == ""
    assert len(harness.queue) == 0
    harness.queue.add(info("c"))
    entry = harness.queue.pop()
    assert entry is not None
    harness.queue.remove("c")
    harness.queue.requeue_after_error(entry)
    assert len(harness.queue) == 0, "a pod removed during its attempt is not queued again"


def test_only_nominations_of_higher_priority_count() -> None:
    nominator = Nominator()
    high, low = info("high", 10), info("low", 1)
    nominator.add(high, "a")
    nominator.add(low, "a")
    rows = {"a": 3}
    assert nominator.list_higher_priority_pods(info("new", 5), rows) == [(3, [high])]
    assert nominator.list_higher_priority_pods(high, rows) == []
    assert nominator.list_higher_priority_pods(info("lowest", 0), rows) == [(3, [high, low])]
    nominator.add(high, "b")
    assert nominator.list_higher_priority_pods(info("new", 5), rows) == [], "nominations for unknown nodes are left out"
    nominator.delete("low")
    nominator.add(high, "")
    assert nominator.by_node == {}
