"""The queue: order, back-off, waking by what can help, gates, nominations."""

import asyncio
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.clock import VirtualClock
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from sampan.scheduler.cache.scheduler_cache import Nominator
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource
from sampan.scheduler.framework.contract import Code, Status
from sampan.scheduler.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABELS = ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS)
POD_GONE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
PODS = PodInfoTable()


def info(name: str, priority: int = 0) -> PodInfo:
    return PODS.info(Pod(metadata=ObjectMeta(name=name, namespace="n", uid=name), spec=PodSpec(priority=priority)))


class Made:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.gated: set[str] = set()
        self.queue = SchedulingQueue(
            clock=self.clock,
            sort_key=lambda found, since: (-found.priority, since),
            gate=lambda found: Status(Code.UNRESOLVABLE, ("gated",), "G") if found.name in self.gated else None,
            hints={
                NODE_ADD: [("Fit", None), ("Ports", None)],
                NODE_LABELS: [("Affinity", lambda found, old, new: new == found.name)],
                POD_GONE: [("Fit", None)],
            },
        )

    def pop(self) -> str:
        found = self.queue.pop()
        return found.info.name if found is not None else ""

    def fail(self, name: str, *plugins: str) -> QueuedPodInfo:
        """Have the pod tried in vain."""
        found = self.queue.pop()
        assert found is not None
        assert found.info.name == name
        self.queue.failed(found, plugins)
        return found


@pytest.fixture
def made() -> Made:
    return Made()


def test_by_priority_then_by_age(made: Made) -> None:
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", -1), ("e", 5)):
        made.queue.add(info(name, priority))
    assert [made.pop() for _ in range(6)] == ["b", "e", "a", "c", "d", ""]


@pytest.mark.parametrize(
    ("plugins", "event", "new", "wakes"),
    [
        (["Fit"], NODE_ADD, None, True),
        (["Fit", "Affinity"], POD_GONE, None, True),
        (["Affinity"], POD_GONE, None, False),
        (["Affinity"], NODE_LABELS, "a", True),
        (["Affinity"], NODE_LABELS, "other", False),
        (["Fit"], ClusterEvent(EventResource.SERVICE, ActionType.ADD), None, False),
        ([], NODE_ADD, None, True),
        ([], POD_GONE, None, False),
    ],
)
def test_only_what_can_help_wakes(made: Made, plugins: list[str], event: ClusterEvent, new: Any, wakes: bool) -> None:
    made.queue.add(info("a"))
    made.fail("a", *plugins)
    assert made.pop() == ""
    made.queue.on_event(event, None, new)
    assert made.pop() == ("a" if wakes else "")


def test_what_happens_during_an_attempt_counts(made: Made) -> None:
    made.queue.add(info("a"))
    found = made.queue.pop()
    assert found is not None
    made.queue.on_event(NODE_ADD, None, None)
    made.queue.failed(found, ["Fit"])
    assert made.queue.counts()["backoff"] == 1


async def test_errors_wait_longer_each_time(made: Made) -> None:
    made.queue.add(info("a"))
    for pause in (1, 2, 4, 8, 10, 10):
        found = made.queue.pop()
        assert found is not None
        made.queue.errored(found)
        await made.clock.advance(pause - 0.01)
        assert made.pop() == "", "not before its time"
        await made.clock.advance(0.02)


def test_pods_that_back_off_are_tried_early_when_nothing_else_is(made: Made) -> None:
    made.queue.add(info("a"))
    made.fail("a", "Fit")
    made.queue.on_event(NODE_ADD, None, None)
    assert made.queue.counts()["backoff"] == 1
    made.queue.add(info("b"))
    assert [made.pop(), made.pop()] == ["b", "a"]


async def test_nobody_waits_for_ever(made: Made) -> None:
    made.queue.add(info("a"))
    made.fail("a", "Fit")
    await made.clock.advance(299)
    assert made.pop() == ""
    await made.clock.advance(2)
    assert made.pop() == "a"


async def test_waiting_ends_when_a_pod_comes_or_is_due(made: Made) -> None:
    waiting = asyncio.ensure_future(made.queue.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    made.queue.add(info("a"))
    await waiting
    found = made.queue.pop()
    assert found is not None
    made.queue.errored(found)
    given = asyncio.ensure_future(_next(made))
    await made.clock.advance(1)
    assert await given == "a"


async def _next(made: Made) -> str:
    while not (name := made.pop()):
        await made.queue.wait()
    return name


def test_gates(made: Made) -> None:
    made.gated.add("a")
    made.queue.add(info("a"))
    assert made.pop() == ""
    assert made.queue.counts()["gated"] == 1
    made.queue.on_event(NODE_ADD, None, None)
    assert made.pop() == ""
    made.gated.clear()
    made.queue.update(info("a"))
    assert made.pop() == "a"


def test_a_pod_that_went_is_not_given_out(made: Made) -> None:
    made.queue.add(info("a"))
    made.queue.add(info("b"))
    made.fail("a", "Fit")
    made.queue.remove("a")
    made.queue.on_event(NODE_ADD, None, None)
    made.queue.remove("b")
    assert made.pop() == ""
    assert len(made.queue) == 0
    made.queue.add(info("c"))
    found = made.queue.pop()
    assert found is not None
    made.queue.remove("c")
    made.queue.errored(found)
    assert len(made.queue) == 0, "gone while it was tried"


def test_nominations_give_way_to_lower_ones_only() -> None:
    found = Nominator()
    high, low = info("high", 10), info("low", 1)
    found.add(high, "a")
    found.add(low, "a")
    rows = {"a": 3}
    assert found.of_higher_priority(info("new", 5), rows) == [(3, [high])]
    assert found.of_higher_priority(high, rows) == []
    assert found.of_higher_priority(info("lowest", 0), rows) == [(3, [high, low])]
    found.add(high, "b")
    assert found.of_higher_priority(info("new", 5), rows) == [], "of a node that is not known nothing is said"
    found.delete("low")
    found.add(high, "")
    assert found.by_node == {}
