"""Who is evicted, and who is not taken."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.eviction import rules
from sampan.kubelet.agent.eviction.manager import EvictionManager, observe_machine
from sampan.kubelet.agent.eviction.rules import Observation, Shortage, Threshold
from sampan.kubelet.agent.garbage_collection import to_remove
from sampan.kubelet.node_status import DISK_PRESSURE, MEMORY_PRESSURE
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.machinery.clock import VirtualClock
from sampan.runtimes.contract import ImageInfo, Usage

MEMORY = {"memory.available": "100Mi"}
MIB = 1 << 20


def pod(name: str, *, requests: dict[str, str] | None = None, priority: int = 0, **spec: Any) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {}}}
    value = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [container], "priority": priority, **spec}}
    return json.from_value(value, Pod)


def test_a_threshold_is_met_below_it_only() -> None:
    memory, disk = Threshold("memory.available", "100Mi"), Threshold("nodefs.available", "10%")
    observations = {"memory.available": Observation(99 * MIB, 1000 * MIB), "nodefs.available": Observation(50, 100)}
    assert rules.shortage(memory, observations, with_reclaim=False) == Shortage("memory.available", 100 * MIB, 99 * MIB)
    assert rules.shortage(disk, observations, with_reclaim=False) is None
    assert rules.shortage(memory, {"memory.available": Observation(100 * MIB, 1)}, with_reclaim=False) is None
    assert rules.shortage(memory, {}, with_reclaim=False) is None


def test_what_was_short_must_come_back_by_more_than_the_threshold() -> None:
    threshold = Threshold("memory.available", "100Mi", reclaim="50Mi")
    observations = {"memory.available": Observation(120 * MIB, 1000 * MIB)}
    assert rules.shortage(threshold, observations, with_reclaim=False) is None
    assert rules.shortage(threshold, observations, with_reclaim=True) == Shortage(
        "memory.available", 100 * MIB, 120 * MIB
    )


def test_processes_are_counted_but_not_asked_for() -> None:
    rows = [(pod("few", priority=0), [Usage("c", 0, 0, processes=1)]), (pod("many"), [Usage("c", 0, 0, processes=9)])]
    rows.append((pod("important", priority=5), [Usage("c", 0, 0, processes=99)]))
    assert [pod.metadata.name for pod, _ in rules.rank_pods(rows, "pids")] == ["many", "few", "important"]


def test_those_who_use_more_than_they_asked_for_go_first() -> None:
    modest = pod("modest", requests={"memory": "500Mi"})
    greedy, larger = pod("greedy"), pod("larger")
    important = pod("important", priority=10)
    vital = pod("vital", priority=2_000_000_000)
    rows = [(pod, [Usage("c", 0, size * MIB)]) for pod, size in ((modest, 400), (greedy, 50), (larger, 60))]
    rows += [(important, [Usage("c", 0, 300 * MIB)]), (vital, [Usage("c", 0, 900 * MIB)])]
    names = [pod.metadata.name for pod, _ in rules.rank_pods(rows, "memory")]
    assert names == ["larger", "greedy", "important", "modest"]


@pytest.mark.parametrize(
    ("pod", "types", "is_taken"),
    [
        (pod("best-effort"), [], True),
        (pod("best-effort"), [MEMORY_PRESSURE], False),
        (pod("burstable", requests={"cpu": "1"}), [MEMORY_PRESSURE], True),
        (pod("burstable", requests={"cpu": "1"}), [DISK_PRESSURE], False),
        (pod("vital", priority=2_000_000_000), [DISK_PRESSURE], True),
        (pod("tolerant", tolerations=[{"operator": "Exists"}]), [MEMORY_PRESSURE], True),
    ],
)
def test_who_is_taken_under_pressure(pod: Pod, types: list[str], is_taken: bool) -> None:
    failure = rules.admission_failure(pod, types)
    assert (failure is None) is is_taken
    if failure is not None:
        assert failure.message == f"The node had condition: [{types[0]}]. "


class Scene:
    """An eviction manager, what it sees, and whom it evicts."""

    def __init__(self, **config: Any) -> None:
        from pathlib import Path

        self.clock, self.available, self.evicted = VirtualClock(), 1000 * MIB, list[tuple[str, float]]()
        self.room = 0
        """What is had back without ending anything."""
        self.pods = [pod("a"), pod("b")]

        async def stats(pod: Pod) -> list[Usage]:
            return [Usage("c", 0, (10 if pod.metadata.name == "a" else 20) * MIB)]

        async def reclaim_disk(signal: str) -> None:
            self.available += self.room

        async def volumes(pod: Pod) -> list[VolumeUsage]:
            return []

        runtime: Any = type("Fake", (), {"stats": staticmethod(stats)})
        self.eviction = EvictionManager(
            config=AgentConfig(name="n", root=Path("/"), logs=Path("/"), **config),
            runtime=runtime,
            clock=self.clock,
            pods=lambda: self.pods,
            volumes=volumes,
            evict=lambda pod, failure, grace_s: self.evicted.append((pod.metadata.name, grace_s)),
            record_event=lambda text: None,
            reclaim_disk=reclaim_disk,
            on_change=lambda: None,
            has_terminated=lambda pod: True,
            observe=lambda: dict.fromkeys(
                ("memory.available", "nodefs.available"), Observation(self.available, 2000 * MIB)
            ),
        )


async def test_one_pod_goes_at_a_time_and_the_condition_lasts() -> None:
    scene = Scene(eviction_hard=MEMORY)
    assert await scene.eviction.check() == []
    assert scene.eviction.conditions() == {}
    scene.available = 10 * MIB
    await scene.eviction.check()
    assert scene.evicted == [("b", 1.0)]
    assert scene.eviction.conditions()[MEMORY_PRESSURE][1] == "KubeletHasInsufficientMemory"
    scene.available = 1000 * MIB
    await scene.eviction.check()
    assert scene.evicted == [("b", 1.0)]
    assert scene.eviction.types == [MEMORY_PRESSURE]
    await scene.clock.advance(301)
    assert scene.eviction.types == []


async def test_a_soft_threshold_has_its_grace() -> None:
    grace = {"memory.available": 30.0}
    scene = Scene(eviction_hard={}, eviction_soft=MEMORY, eviction_soft_grace_s=grace, eviction_max_pod_grace_s=5)
    scene.available = 10 * MIB
    await scene.eviction.check()
    assert scene.evicted == []
    assert scene.eviction.types == [MEMORY_PRESSURE]
    await scene.clock.advance(31)
    await scene.eviction.check()
    assert scene.evicted == [("b", 5.0)]


async def test_a_shortage_lasts_until_enough_is_there_again() -> None:
    scene = Scene(eviction_hard=MEMORY, eviction_minimum_reclaim={"memory.available": "50Mi"})
    for available, evicted in ((10, 1), (120, 2), (160, 2), (120, 2)):
        scene.available = available * MIB
        await scene.eviction.check()
        assert len(scene.evicted) == evicted, available


async def test_nobody_ends_for_a_disk_that_can_be_cleared() -> None:
    scene = Scene(eviction_hard={"nodefs.available": "100Mi"})
    scene.available, scene.room = 10 * MIB, 50 * MIB
    await scene.eviction.check()
    assert len(scene.evicted) == 1
    scene.available, scene.room = 10 * MIB, 500 * MIB
    await scene.eviction.check()
    assert len(scene.evicted) == 1
    assert scene.eviction.types == [DISK_PRESSURE]


def test_the_machine_can_be_looked_at(tmp_path: Any) -> None:
    observations = observe_machine(tmp_path)
    assert 0 < observations["memory.available"].available <= observations["memory.available"].capacity
    assert observations["pid.available"].available > 0


def test_images_longest_unused_go_first() -> None:
    images = [ImageInfo(id=name, size=10) for name in ("old", "older", "used", "young")]
    images.append(ImageInfo(id="pinned", size=10, is_pinned=True))
    used_at = {"old": 2.0, "older": 1.0, "used": 0.0, "young": 9.0, "pinned": 0.0}
    removed = to_remove(images, used_at, {"used"}, bytes_to_free=15, old=5.0)
    assert [image.id for image in removed] == ["older", "old"]
    assert [image.id for image in to_remove(images, used_at, {"used"}, bytes_to_free=5, old=5.0)] == ["older"]
