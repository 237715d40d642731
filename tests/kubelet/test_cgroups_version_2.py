"""Groups in the kernel's own tree of version 2, mounted for the test; controllers may all be with version 1."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.kubelet.cgroups import Hierarchy, PodCgroups
from sampan.runtimes import kernel
from tests.kubelet.test_cgroups import pod

TOP = f"/sampan-test-{os.getpid()}"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount cgroup2")


@pytest.fixture
def hierarchy(tmp_path: Path) -> Iterator[Hierarchy]:
    place = tmp_path / "cgroup"
    place.mkdir()
    try:
        kernel.mount("none", place, "cgroup2")
    except OSError as fault:
        pytest.skip(f"cgroup2 cannot be mounted: {fault}")
    try:
        hierarchy = Hierarchy(place)
        yield hierarchy
        hierarchy.remove(TOP)
    finally:
        kernel.unmount(place)


def test_groups_of_pods_with_processes_in_them(hierarchy: Hierarchy, tmp_path: Path) -> None:
    assert hierarchy.is_unified
    groups = PodCgroups(root=TOP, hierarchy=hierarchy)
    groups.start(cores=2, memory_bytes=1 << 30)
    assert groups.is_usable
    new_pod = pod({"requests": {"cpu": "1"}})
    groups.ensure(new_pod)
    assert groups.parent(new_pod) == f"{TOP}/kubepods/burstable/podu"
    assert hierarchy.children(f"{TOP}/kubepods") == {"burstable", "besteffort"}
    inner = f"{groups.parent(new_pod)}/container"
    (tmp_path / "cgroup" / inner.strip("/")).mkdir()  # as an engine does
    process = subprocess.Popen(["sleep", "1000"])
    try:
        (tmp_path / "cgroup" / inner.strip("/") / "cgroup.procs").write_text(str(process.pid))
        assert hierarchy.processes(groups.parent(new_pod)) == {process.pid}
        assert not hierarchy.remove(inner)  # it is in use
    finally:
        process.kill()
        process.wait()
    groups.remove("u")
    assert groups.known() == set()
    groups.stop()
    assert hierarchy.children(TOP) == set()


def test_controllers_that_there_are_are_handed_down(hierarchy: Hierarchy, tmp_path: Path) -> None:
    available = (tmp_path / "cgroup" / "cgroup.controllers").read_text().split()
    hierarchy.make(f"{TOP}/a/b")
    for group in (TOP, f"{TOP}/a"):
        handed = (tmp_path / "cgroup" / group.strip("/") / "cgroup.subtree_control").read_text().split()
        assert set(handed) <= set(available)
    if not available:
        pytest.skip("all controllers are with version 1")
    assert set((tmp_path / "cgroup" / TOP.strip("/") / "a" / "cgroup.controllers").read_text().split())
