"""Groups of pods, in directories that stand for the kernel's."""

from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.cgroups import Hierarchy, PodCgroups, cgroup_of, pod_limits, wider
from sampan.runtimes.config import Resources


def pod(*containers: dict[str, Any], uid: str = "u") -> Pod:
    manifests = [{"name": f"c{number}", "resources": resources} for number, resources in enumerate(containers)]
    return json.from_value({"metadata": {"uid": uid}, "spec": {"containers": manifests}}, Pod)


FULL = {"cpu": "500m", "memory": "100Mi"}


@pytest.mark.parametrize(
    ("pod", "group", "limits"),
    [
        (pod({}), "besteffort/podu", Resources(cpu_shares=2)),
        (pod({"requests": {"cpu": "1"}}), "burstable/podu", Resources(cpu_shares=1024)),
        (
            pod({"requests": FULL, "limits": FULL}, {"requests": FULL, "limits": FULL}),
            "podu",
            Resources(cpu_shares=1024, cpu_quota=100_000, memory_bytes=200 << 20),
        ),
        (pod({"limits": FULL, "requests": FULL}, {}), "burstable/podu", Resources(cpu_shares=512)),
    ],
)
def test_a_pods_group_and_its_limits(pod: Pod, group: str, limits: Resources) -> None:
    assert (cgroup_of(pod), pod_limits(pod)) == (group, limits)


def test_no_limit_is_the_widest() -> None:
    assert wider(Resources(memory_bytes=5), Resources(memory_bytes=0)).memory_bytes == 0
    assert wider(Resources(memory_bytes=5), Resources(memory_bytes=7)).memory_bytes == 7


@pytest.fixture(params=["unified", "split"])
def hierarchy(request: pytest.FixtureRequest, tmp_path: Path) -> Hierarchy:
    if request.param == "unified":
        (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
        return Hierarchy(tmp_path)
    for name in ("cpu", "memory", "pids"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text("")
    return Hierarchy(tmp_path)


def test_groups_come_and_go(hierarchy: Hierarchy) -> None:
    groups = PodCgroups(root="/test", hierarchy=hierarchy)
    groups.start(cores=2, memory_bytes=1 << 30)
    assert groups.is_usable
    new_pod = pod({"requests": {"cpu": "1"}})
    groups.ensure(new_pod)
    groups.ensure(new_pod)
    assert groups.parent(new_pod) == "/test/kubepods/burstable/podu"
    assert groups.known() == {"u"}
    groups.remove("u")
    assert groups.known() == set()


def test_limits_are_written_where_the_kernel_has_them(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    hierarchy, directory = Hierarchy(tmp_path), tmp_path / "g"
    hierarchy.make("/g")
    for name in ("cpu.weight", "cpu.max", "memory.max", "pids.max"):
        (directory / name).write_text("")
    hierarchy.limit("/g", Resources(cpu_shares=1024, cpu_quota=50_000, memory_bytes=1 << 20))
    assert (directory / "cpu.weight").read_text() == "100"
    assert (directory / "cpu.max").read_text() == "50000 100000"
    assert (directory / "memory.max").read_text() == str(1 << 20)
    assert (directory / "pids.max").read_text() == "max"


def test_without_groups_pods_go_without(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("")
    (tmp_path / "kubepods").write_text("in the way")
    groups = PodCgroups(hierarchy=Hierarchy(tmp_path))
    groups.start(cores=1, memory_bytes=1)
    assert not groups.is_usable
    assert groups.parent(pod({})) == ""
    groups.ensure(pod({}))
    groups.remove("u")
