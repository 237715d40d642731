"""Protection and throttling of memory with cgroups of version 2."""

import mmap
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.cgroups import CgroupHierarchy, PodCgroups
from sampan.kubelet.container_config.memory_qos import MemoryQos
from tests.kubelet.volumes.pods import pod

MI = 1 << 20
RESET = {"memory.min": "0", "memory.low": "0"}


def resources(request: str = "", limit: str = "") -> dict[str, Any]:
    kinds = {"requests": request, "limits": limit}
    return {"resources": {kind: {"memory": text, "cpu": "1"} for kind, text in kinds.items() if text}}


BURSTABLE, GUARANTEED, BEST_EFFORT = (
    pod(resources("64Mi", "128Mi")),
    pod(resources("64Mi", "64Mi")),
    pod({}),
)
TIERED = MemoryQos(reserves=True)
HALF = MemoryQos(throttling_factor=0.5, allocatable=1024 * MI)


@pytest.mark.parametrize(
    ("settings", "pod", "files"),
    [
        (MemoryQos(is_enabled=False), BURSTABLE, {"memory.high": "max"}),
        (MemoryQos(), BURSTABLE, RESET),
        (TIERED, BURSTABLE, {"memory.low": str(64 * MI)}),
        (TIERED, GUARANTEED, {"memory.min": str(64 * MI)}),
        (TIERED, BEST_EFFORT, RESET),
        (HALF, BURSTABLE, {**RESET, "memory.high": str(96 * MI)}),
        (HALF, GUARANTEED, RESET),
        (HALF, BEST_EFFORT, {**RESET, "memory.high": str(512 * MI)}),
        (HALF, pod({}, resources={"limits": {"memory": "1Gi"}}), RESET),
    ],
)
def test_files_of_a_container(settings: MemoryQos, pod: Pod, files: dict[str, str]) -> None:
    assert settings.container_files(pod, (pod.spec.containers or [])[0]) == files


@pytest.mark.parametrize(
    ("settings", "pod", "files"),
    [
        (MemoryQos(is_enabled=False), BURSTABLE, {}),
        (TIERED, BURSTABLE, {"memory.low": str(64 * MI)}),
        (HALF, BURSTABLE, {}),
        (HALF, pod({}, resources={"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}}), {"memory.high": ""}),
    ],
)
def test_files_of_a_pod(settings: MemoryQos, pod: Pod, files: dict[str, str]) -> None:
    expected = {name: text or str(96 * MI // mmap.PAGESIZE * mmap.PAGESIZE) for name, text in files.items()}
    assert settings.pod_files(pod) == expected


def test_parents_protect_the_memory_of_their_pods(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory cpu pids")
    names = ("memory.min", "memory.low", "memory.max", "cpu.weight")
    for cgroup in ("", "/burstable", "/burstable/podu"):
        directory = tmp_path / f"kubepods{cgroup}"
        directory.mkdir()
        for name in names:
            (directory / name).write_text("before")

    def read(cgroup: str, name: str) -> str:
        return (tmp_path / f"kubepods{cgroup}" / name).read_text()

    groups = PodCgroups(hierarchy=CgroupHierarchy(tmp_path), memory_qos=TIERED)
    groups.start(cores=2, memory_bytes=1024 * MI)
    assert (read("", "memory.min"), read("/burstable", "memory.low")) == ("0", "0")
    groups.ensure(BURSTABLE)
    assert (read("", "memory.min"), read("", "memory.low")) == (str(64 * MI), str(64 * MI))
    assert (read("", "memory.max"), read("/burstable", "memory.low")) == (str(1024 * MI), str(64 * MI))
    assert read("/burstable/podu", "memory.low") == str(64 * MI)
