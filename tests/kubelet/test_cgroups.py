"""Cgroups of pods, in plain directories and in the kernel's cgroup file system."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.cgroups import CgroupHierarchy, PodCgroups, cgroup_of, pod_limits, select_larger_limits
from sampan.runtimes import kernel
from sampan.runtimes.config import ContainerResources

TOP = f"/sampan-test-{os.getpid()}"


def pod(*containers: dict[str, Any], uid: str = "u") -> Pod:
    manifests = [{"name": f"c{number}", "resources": resources} for number, resources in enumerate(containers)]
    return json.from_value({"metadata": {"uid": uid}, "spec": {"containers": manifests}}, Pod)


FULL = {"cpu": "500m", "memory": "100Mi"}


@pytest.mark.parametrize(
    ("pod", "group", "limits"),
    [
        (pod({}), "besteffort/podu", ContainerResources(cpu_shares=2)),
        (pod({"requests": {"cpu": "1"}}), "burstable/podu", ContainerResources(cpu_shares=1024)),
        (
            pod({"requests": FULL, "limits": FULL}, {"requests": FULL, "limits": FULL}),
            "podu",
            ContainerResources(cpu_shares=1024, cpu_quota=100_000, memory_bytes=200 << 20),
        ),
        (pod({"limits": FULL, "requests": FULL}, {}), "burstable/podu", ContainerResources(cpu_shares=512)),
    ],
)
def test_a_pods_cgroup_and_its_limits(pod: Pod, group: str, limits: ContainerResources) -> None:
    assert (cgroup_of(pod), pod_limits(pod)) == (group, limits)


def test_wider_treats_zero_as_unlimited() -> None:
    assert (
        select_larger_limits(ContainerResources(memory_bytes=5), ContainerResources(memory_bytes=0)).memory_bytes == 0
    )
    assert (
        select_larger_limits(ContainerResources(memory_bytes=5), ContainerResources(memory_bytes=7)).memory_bytes == 7
    )


@pytest.fixture(params=["unified", "split"])
def hierarchy(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupHierarchy:
    if request.param == "unified":
        (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
        return CgroupHierarchy(tmp_path)
    for name in ("cpu", "memory", "pids"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text("")
    return CgroupHierarchy(tmp_path)


def test_pod_cgroups_are_created_and_removed(hierarchy: CgroupHierarchy) -> None:
    groups = PodCgroups(root="/test", hierarchy=hierarchy)
    groups.start(cores=2, memory_bytes=1 << 30)
    assert groups.is_usable
    new_pod = pod({"requests": {"cpu": "1"}})
    groups.ensure(new_pod)
    groups.ensure(new_pod)
    assert groups.parent(new_pod) == "/test/kubepods/burstable/podu"
    assert groups.list_pod_uids() == {"u"}
    groups.remove("u")
    assert groups.list_pod_uids() == set()


def test_limits_are_written_to_cgroup_v2_files(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    hierarchy, directory = CgroupHierarchy(tmp_path), tmp_path / "g"
    hierarchy.make("/g")
    for name in ("cpu.weight", "cpu.max", "memory.max", "pids.max"):
        (directory / name).write_text("")
    hierarchy.limit("/g", ContainerResources(cpu_shares=1024, cpu_quota=50_000, memory_bytes=1 << 20))
    assert (directory / "cpu.weight").read_text() == "100"
    assert (directory / "cpu.max").read_text() == "50000 100000"
    assert (directory / "memory.max").read_text() == str(1 << 20)
    assert (directory / "pids.max").read_text() == "max"


def test_pods_run_without_cgroups_if_the_hierarchy_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("")
    (tmp_path / "kubepods").write_text("in the way")
    groups = PodCgroups(hierarchy=CgroupHierarchy(tmp_path))
    groups.start(cores=1, memory_bytes=1)
    assert not groups.is_usable
    assert groups.parent(pod({})) == ""
    groups.ensure(pod({}))
    groups.remove("u")


@pytest.fixture
def kernel_hierarchy(tmp_path: Path) -> Iterator[CgroupHierarchy]:
    """The kernel's own cgroup v2 tree, mounted for the test; controllers may all be in use by cgroup v1."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount cgroup2")
    place = tmp_path / "cgroup"
    place.mkdir()
    try:
        kernel.mount("none", place, "cgroup2")
    except OSError as fault:
        pytest.skip(f"cgroup2 cannot be mounted: {fault}")
    try:
        hierarchy = CgroupHierarchy(place)
        yield hierarchy
        hierarchy.remove(TOP)
    finally:
        kernel.unmount(place)


def test_pod_cgroups_with_processes_in_the_kernel_hierarchy(kernel_hierarchy: CgroupHierarchy, tmp_path: Path) -> None:
    assert kernel_hierarchy.is_unified
    groups = PodCgroups(root=TOP, hierarchy=kernel_hierarchy)
    groups.start(cores=2, memory_bytes=1 << 30)
    assert groups.is_usable
    new_pod = pod({"requests": {"cpu": "1"}})
    groups.ensure(new_pod)
    assert groups.parent(new_pod) == f"{TOP}/kubepods/burstable/podu"
    assert kernel_hierarchy.children(f"{TOP}/kubepods") == {"burstable", "besteffort"}
    inner = f"{groups.parent(new_pod)}/container"
    (tmp_path / "cgroup" / inner.strip("/")).mkdir()  # as a container engine does
    process = subprocess.Popen(["sleep", "1000"])
    try:
        (tmp_path / "cgroup" / inner.strip("/") / "cgroup.procs").write_text(str(process.pid))
        assert kernel_hierarchy.processes(groups.parent(new_pod)) == {process.pid}
        assert not kernel_hierarchy.remove(inner)  # a process is in it
    finally:
        process.kill()
        process.wait()
    groups.remove("u")
    assert groups.list_pod_uids() == set()
    groups.stop()
    assert kernel_hierarchy.children(TOP) == set()


def test_available_controllers_are_delegated_to_child_cgroups(
    kernel_hierarchy: CgroupHierarchy, tmp_path: Path
) -> None:
    available = (tmp_path / "cgroup" / "cgroup.controllers").read_text().split()
    kernel_hierarchy.make(f"{TOP}/a/b")
    for group in (TOP, f"{TOP}/a"):
        delegated = (tmp_path / "cgroup" / group.strip("/") / "cgroup.subtree_control").read_text().split()
        assert set(delegated) <= set(available)
    if not available:
        pytest.skip("all controllers are used by cgroup v1")
    assert set((tmp_path / "cgroup" / TOP.strip("/") / "a" / "cgroup.controllers").read_text().split())
