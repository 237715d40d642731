"""Evictions on a virtual clock, and observations of the machine."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.host.clock import VirtualClock
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.eviction.manager import EvictionManager, observe_machine
from sampan.kubelet.agent.eviction.rules import SignalObservation
from sampan.kubelet.node_status import DISK_PRESSURE, MEMORY_PRESSURE
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.runtimes.contract import ContainerUsage, RuntimeFailure
from tests.eventually import eventually

MEMORY = {"memory.available": "100Mi"}
MIB = 1 << 20


def pod(name: str) -> Pod:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return json.from_value({"metadata": {"name": name, "uid": name}, "spec": spec}, Pod)


class Scene:
    """An eviction manager with simulated observations, which records evicted pods."""

    def __init__(self, **config: Any) -> None:
        self.clock, self.available, self.evicted = VirtualClock(), 1000 * MIB, list[tuple[str, float]]()
        self.reclaimable = 0
        """Bytes that garbage collection frees without evicting a pod."""
        self.pods = [pod("a"), pod("b")]
        self.file_bytes: dict[str, int] = {}
        """The size of the files of pods outside of volumes and containers."""

        async def stats(pod: Pod) -> list[ContainerUsage]:
            return [ContainerUsage("c", 0, (10 if pod.metadata.name == "a" else 20) * MIB)]

        async def volumes(pod: Pod) -> list[VolumeUsage]:
            return []

        runtime: Any = type("Fake", (), {"stats": staticmethod(stats)})
        self.eviction = EvictionManager(
            config=AgentConfig(name="n", root=Path("/"), logs=Path("/"), **config),
            runtime=runtime,
            clock=self.clock,
            pods=lambda: self.pods,
            volumes=volumes,
            files=lambda pod: ContainerUsage("", 0, 0, disk_bytes=self.file_bytes.get(pod.metadata.name, 0)),
            evict=lambda pod, failure, grace_s: self.evicted.append((pod.metadata.name, grace_s)),
            record_event=lambda text: None,
            reclaim_disk=self.reclaim_disk,
            on_change=lambda: None,
            has_terminated=lambda pod: True,
            observe=self.observe,
        )

    def observe(self) -> dict[str, SignalObservation]:
        return dict.fromkeys(("memory.available", "nodefs.available"), SignalObservation(self.available, 2000 * MIB))

    async def reclaim_disk(self, signal: str) -> None:
        self.available += self.reclaimable


async def test_single_pod_is_evicted_per_check_and_the_pressure_condition_persists() -> None:
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


async def test_a_soft_threshold_waits_for_its_grace_period() -> None:
    grace = {"memory.available": 30.0}
    scene = Scene(eviction_hard={}, eviction_soft=MEMORY, eviction_soft_grace_s=grace, eviction_max_pod_grace_s=5)
    scene.available = 10 * MIB
    await scene.eviction.check()
    assert scene.evicted == []
    assert scene.eviction.types == [MEMORY_PRESSURE]
    await scene.clock.advance(31)
    await scene.eviction.check()
    assert scene.evicted == [("b", 5.0)]


async def test_eviction_continues_until_the_minimum_reclaim_is_reached() -> None:
    scene = Scene(eviction_hard=MEMORY, eviction_minimum_reclaim={"memory.available": "50Mi"})
    for available, evicted in ((10, 1), (120, 2), (160, 2), (120, 2)):
        scene.available = available * MIB
        await scene.eviction.check()
        assert len(scene.evicted) == evicted, available


async def test_no_pod_is_evicted_for_a_disk_that_garbage_collection_can_clear() -> None:
    scene = Scene(eviction_hard={"nodefs.available": "100Mi"})
    scene.available, scene.reclaimable = 10 * MIB, 50 * MIB
    await scene.eviction.check()
    assert len(scene.evicted) == 1
    scene.available, scene.reclaimable = 10 * MIB, 500 * MIB
    await scene.eviction.check()
    assert len(scene.evicted) == 1
    assert scene.eviction.types == [DISK_PRESSURE]


def test_memory_and_process_ids_of_the_machine_are_observed(tmp_path: Path) -> None:
    observations = observe_machine(tmp_path)
    assert 0 < observations["memory.available"].available <= observations["memory.available"].capacity
    assert observations["pid.available"].available > 0


class FailingScene(Scene):
    """The first observation fails, and so does garbage collection."""

    def __init__(self) -> None:
        self.observations = self.reclaims = 0
        super().__init__(eviction_hard={"nodefs.available": "10%"})
        self.pods = []

    def observe(self) -> dict[str, SignalObservation]:
        self.observations += 1
        if self.observations == 1:
            raise OSError("too many open files")
        return {"nodefs.available": SignalObservation(1, 100)}

    async def reclaim_disk(self, signal: str) -> None:
        self.reclaims += 1
        raise RuntimeFailure("ImageError", "the engine is unavailable")


async def test_eviction_manager_continues_after_failures(caplog: pytest.LogCaptureFixture) -> None:
    scene = FailingScene()
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            running = group.create_task(scene.eviction.run())
            await eventually(lambda: scene.reclaims >= 2, step=lambda: scene.clock.advance(10))
            assert scene.eviction.types == [DISK_PRESSURE]
            running.cancel()
    assert "too many open files" in caplog.text
    assert "by garbage collection: the engine is unavailable" in caplog.text


async def test_files_outside_of_volumes_and_containers_count_as_local_storage() -> None:
    scene = Scene()
    scene.pods = [pod_with_storage_limit(name) for name in ("a", "b")]
    scene.file_bytes = {"a": 19 * MIB, "b": 21 * MIB}
    await scene.eviction.check()
    assert scene.evicted == [("b", 1.0)]


def pod_with_storage_limit(name: str) -> Pod:
    resources = {"limits": {"ephemeral-storage": "20Mi"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    return json.from_value({"metadata": {"name": name, "uid": name}, "spec": spec}, Pod)
