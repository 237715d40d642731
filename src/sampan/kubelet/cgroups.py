"""Cgroups of the node's pods: one for all pods, one per QoS class, one per pod (`pod_container_manager_linux.go`,
`qos_container_manager_linux.go` and `helpers_linux.go` of `pkg/kubelet/cm`).

`CgroupHierarchy` writes cgroups of version 1 and 2; `PodCgroups` computes the limits of pods and manages the cgroups of
a node. The container runtime creates the cgroups of containers below that of their pod.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from sampan.api.semantics.pod_resources import BEST_EFFORT, GUARANTEED, effective_limits, effective_requests, qos_class
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, Pod
from sampan.kubelet.container_config.memory_qos import LOW, MIN, MemoryQos
from sampan.kubelet.container_config.resources import quota, shares
from sampan.kubelet.metrics import KubeletMetrics
from sampan.runtimes.config import ContainerResources

log = logging.getLogger(__name__)

ROOT = Path("/sys/fs/cgroup")
_TREES = (
    *("cpu", "cpuacct", "memory", "pids", "cpuset", "devices", "freezer", "blkio", "hugetlb"),
    *("net_cls", "net_prio", "perf_event", "rdma", "misc", "systemd", "unified"),
)
_NO_LIMIT = "max"


class CgroupHierarchy:
    """The kernel's cgroup hierarchies: version 2 with one tree, version 1 with one tree per controller.

    A cgroup is named by its path from the root, such as /kubepods/burstable. Errors are raised as OSError.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.is_unified = (root / "cgroup.controllers").exists()

    def make(self, cgroup: str) -> None:
        for tree in self._trees():
            directory = tree / cgroup.strip("/")
            if directory.is_dir():
                continue
            if self.is_unified:
                self._make_unified(cgroup)
            else:
                directory.mkdir(parents=True, exist_ok=True)
                self._inherit_cpus(tree, directory)

    def _make_unified(self, cgroup: str) -> None:
        """Create a cgroup of version 2, and enable all controllers for the children of each of its ancestors."""
        directory = self._root
        controllers = [f"+{name}" for name in (directory / "cgroup.controllers").read_text().split()]
        for part in [*cgroup.strip("/").split("/"), ""]:
            for word in controllers:
                with contextlib.suppress(OSError):  # Without this controller, nothing below the cgroup is limited.
                    _write(directory / "cgroup.subtree_control", word)
            directory /= part
            directory.mkdir(exist_ok=True)

    def _inherit_cpus(self, tree: Path, directory: Path) -> None:
        """Copy CPUs and memory nodes from the parent. A new cpuset cgroup has none, so no process could run in it."""
        if tree.name != "cpuset":
            return
        for part in reversed([directory, *directory.parents]):
            if tree in part.parents:
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if not (part / name).read_text().strip():
                        (part / name).write_text((part.parent / name).read_text().strip())

    def limit(self, cgroup: str, amounts: ContainerResources) -> None:
        """Set the limits of the cgroup; 0 means unlimited."""
        write = self._limit_unified if self.is_unified else self._limit_split
        write(cgroup, amounts)

    def _limit_unified(self, cgroup: str, amounts: ContainerResources) -> None:
        directory = self._root / cgroup.strip("/")
        if amounts.cpu_shares:
            _write(directory / "cpu.weight", str(_weight(amounts.cpu_shares)))
        quota = str(amounts.cpu_quota) if amounts.cpu_quota else _NO_LIMIT
        _write(directory / "cpu.max", f"{quota} {amounts.cpu_period}")
        _write(directory / "memory.max", str(amounts.memory_bytes or _NO_LIMIT))
        _write(directory / "pids.max", str(amounts.pids or _NO_LIMIT))
        for name, text in amounts.cgroup_files.items():
            _write(directory / name, text)

    def _limit_split(self, cgroup: str, amounts: ContainerResources) -> None:
        name = cgroup.strip("/")
        if amounts.cpu_shares:
            _write(self._root / "cpu" / name / "cpu.shares", str(amounts.cpu_shares))
        _write(self._root / "cpu" / name / "cpu.cfs_period_us", str(amounts.cpu_period))
        _write(self._root / "cpu" / name / "cpu.cfs_quota_us", str(amounts.cpu_quota or -1))
        _write(self._root / "memory" / name / "memory.limit_in_bytes", str(amounts.memory_bytes or -1))
        _write(self._root / "pids" / name / "pids.max", str(amounts.pids or _NO_LIMIT))

    def remove(self, cgroup: str) -> bool:
        """Remove the cgroup and its descendants. Return False if a process is still in one of them."""
        is_removed = True
        for tree in self._trees():
            directory = tree / cgroup.strip("/")
            for path, _, _ in os.walk(directory, topdown=False):
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    continue
                except OSError:
                    is_removed = False
        return is_removed

    def processes(self, cgroup: str) -> set[int]:
        """Return the processes of the cgroup and its descendants."""
        pids: set[int] = set()
        for tree in self._trees():
            for path, _, _ in os.walk(tree / cgroup.strip("/")):
                with contextlib.suppress(OSError):
                    pids.update(int(line) for line in (Path(path) / "cgroup.procs").read_text().split())
        return pids

    def children(self, cgroup: str) -> set[str]:
        """Return the names of the direct children."""
        names: set[str] = set()
        for tree in self._trees():
            directory = tree / cgroup.strip("/")
            if directory.is_dir():
                names.update(entry.name for entry in os.scandir(directory) if entry.is_dir())
        return names

    def _trees(self) -> Iterator[Path]:
        if self.is_unified:
            yield self._root
            return
        for name in _TREES:
            if (self._root / name / "cgroup.procs").exists():
                yield self._root / name


def _weight(shares: int) -> int:
    """Convert CPU shares of version 1 to the weight of version 2, on a curve that maps 1024 to 100."""
    clamped = min(max(shares, 2), 262_144)
    level = math.log2(clamped)
    return math.ceil(10 ** ((level * level + 125 * level) / 612.0 - 7.0 / 34.0))


def _write(path: Path, text: str) -> None:
    """Write the file if it exists. A controller that the kernel lacks does not limit anything."""
    if path.exists():
        path.write_text(text)


PODS = "kubepods"
_QOS_CLASSES = ("burstable", "besteffort")
VERSION_1 = (
    "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. "
    "Please migrate to cgroup v2. More information at "
    "https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1"
)


class PodCgroups:
    """The cgroups of a node's pods. `root` is their parent. If they cannot be written, pods run without pod-level
    limits.
    """

    def __init__(
        self,
        *,
        root: str = "",
        hierarchy: CgroupHierarchy | None = None,
        pids: int = 0,
        memory_qos: MemoryQos | None = None,
        metrics: KubeletMetrics | None = None,
    ) -> None:
        """`memory_qos` has no effect with cgroups of version 1."""
        self._metrics = metrics or KubeletMetrics()
        self._hierarchy = hierarchy or CgroupHierarchy()
        self._top = f"{root.rstrip('/')}/{PODS}"
        self._root = root.rstrip("/")
        self._pids = pids
        self.memory_qos = memory_qos if self._hierarchy.is_unified else None
        """The protection and throttling of memory; None with cgroups of version 1."""
        self._whole = ContainerResources()
        """The limits of all pods together."""
        self._written: dict[str, tuple[str, ContainerResources]] = {}
        """Cgroup and last written limits by pod UID."""
        self.is_usable = False
        self.why_not = ""

    @property
    def is_unified(self) -> bool:
        return self._hierarchy.is_unified

    def start(self, *, cores: int, memory_bytes: int) -> None:
        """Create the cgroups of all pods and of the QoS classes."""
        try:
            for name in ("", *_QOS_CLASSES):
                self._hierarchy.make(f"{self._top}/{name}")
            self._whole = ContainerResources(cpu_shares=shares(cores * 1000), memory_bytes=memory_bytes)
            self._hierarchy.limit(self._top, replace(self._whole, cgroup_files=self._protect(0, 0)))
            self._hierarchy.limit(
                f"{self._top}/burstable", ContainerResources(cpu_shares=shares(0), cgroup_files=self._protect(0, 0))
            )
            self._hierarchy.limit(f"{self._top}/besteffort", ContainerResources(cpu_shares=shares(0)))
        except OSError as error:
            self.why_not = f"{error.strerror}: {error.filename}"
            log.warning("pod-level resource limits are not enforced: cannot write cgroups (%s)", self.why_not)
            return
        self.is_usable = True

    def parent(self, pod: Pod) -> str:
        """Return the pod's cgroup, or an empty string if cgroups are not usable."""
        return f"{self._top}/{cgroup_of(pod)}" if self.is_usable else ""

    def ensure(self, pod: Pod) -> None:
        """Create the pod's cgroup and set its limits. Raise OSError if that fails."""
        if not self.is_usable:
            return
        uid, desired = pod.metadata.uid, (self.parent(pod), self._limits_of(pod))
        if self._written.get(uid) == desired:
            return
        with self._metrics.change_cgroup("create"):
            self._hierarchy.make(desired[0])
            self._hierarchy.limit(*desired)
        self._written[uid] = desired
        self._update_qos_cgroups()

    def widen(self, pod: Pod) -> None:
        """Set the limits of the pod's cgroup to the larger of the current and the new limits, before the containers of
        the pod are resized. Raise OSError if that fails.
        """
        before = self._written.get(pod.metadata.uid)
        if not self.is_usable or before is None:
            return
        desired = self._limits_of(pod)
        with self._metrics.change_cgroup("update"):
            self._hierarchy.limit(before[0], select_larger_limits(before[1], desired))
        self._written[pod.metadata.uid] = (before[0], select_larger_limits(before[1], desired))

    def remove(self, uid: str) -> None:
        """Remove the pod's cgroup and kill whatever still runs in it."""
        if not self.is_usable:
            return
        self._written.pop(uid, None)
        with self._metrics.change_cgroup("destroy"):
            for qos in ("", *_QOS_CLASSES):
                cgroup = f"{self._top}/{qos}/pod{uid}"
                if not self._hierarchy.remove(cgroup):
                    _kill(self._hierarchy.processes(cgroup))
                    self._hierarchy.remove(cgroup)
        self._update_qos_cgroups()

    def list_pod_uids(self) -> set[str]:
        """Return the UIDs of the pods that have a cgroup."""
        if not self.is_usable:
            return set()
        names = set[str]().union(*(self._hierarchy.children(f"{self._top}/{qos}") for qos in ("", *_QOS_CLASSES)))
        return {name.removeprefix("pod") for name in names if name.startswith("pod")}

    def stop(self) -> None:
        """Remove all cgroups that contain no process."""
        if self.is_usable:
            self._hierarchy.remove(self._root if self._root else self._top)

    def _limits_of(self, pod: Pod) -> ContainerResources:
        limits = pod_limits(pod, pids=self._pids)
        return replace(limits, cgroup_files=self.memory_qos.pod_files(pod)) if self.memory_qos is not None else limits

    def _protect(self, guaranteed: int, burstable: int) -> dict[str, str]:
        """Return the files that protect the requested memory of all pods; a cgroup protects no more than its parent."""
        if self.memory_qos is None:
            return {}
        return {MIN: str(guaranteed + burstable), LOW: str(burstable)}

    def _update_qos_cgroups(self) -> None:
        """Set the CPU shares of the burstable QoS cgroup to the sum of the shares of its pods, and protect the memory
        that pods have reserved."""
        prefix = f"{self._top}/burstable/"
        total = sum(limits.cpu_shares for cgroup, limits in self._written.values() if cgroup.startswith(prefix))
        guaranteed, burstable = (
            sum(int(limits.cgroup_files.get(name, "0")) for _, limits in self._written.values()) for name in (MIN, LOW)
        )
        low = {LOW: str(burstable)} if self.memory_qos is not None else {}
        try:
            if self.memory_qos is not None and self.memory_qos.reserves:
                self._hierarchy.limit(
                    self._top, replace(self._whole, cgroup_files=self._protect(guaranteed, burstable))
                )
            self._hierarchy.limit(
                f"{self._top}/burstable", ContainerResources(cpu_shares=max(total, shares(0)), cgroup_files=low)
            )
        except OSError as error:
            log.debug("cannot set CPU weight and memory protection of the burstable QoS cgroup: %s", error)


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


_QOS_DIRECTORIES = {GUARANTEED: "", BEST_EFFORT: "besteffort/"}


def cgroup_of(pod: Pod) -> str:
    """Return the path of the pod's cgroup relative to the cgroup of all pods."""
    qos = pod.status.qosClass or qos_class(pod.spec)
    return f"{_QOS_DIRECTORIES.get(qos, 'burstable/')}pod{pod.metadata.uid}"


def pod_limits(pod: Pod, *, pids: int = 0) -> ContainerResources:
    """Return the limits of the pod. A resource is limited only if the pod or every container has a limit."""
    if qos_class(pod.spec) == BEST_EFFORT:
        return ContainerResources(cpu_shares=shares(0), pids=pids)
    requests, limits = effective_requests(pod.spec), effective_limits(pod.spec)
    cpu = requests["cpu"].milli_value() if "cpu" in requests else 0
    has_cpu, has_memory = (_is_limited(pod, name) for name in ("cpu", "memory"))
    return ContainerResources(
        cpu_shares=shares(cpu),
        cpu_quota=quota(limits["cpu"].milli_value()) if has_cpu else 0,
        memory_bytes=limits["memory"].value() if has_memory else 0,
        pids=pids,
    )


def select_larger_limits(left: ContainerResources, right: ContainerResources) -> ContainerResources:
    """Return the larger of the two limits for each resource; no limit is the largest."""
    return replace(
        right,
        cpu_shares=max(left.cpu_shares, right.cpu_shares),
        cpu_quota=max(left.cpu_quota, right.cpu_quota) if left.cpu_quota and right.cpu_quota else 0,
        memory_bytes=max(left.memory_bytes, right.memory_bytes) if left.memory_bytes and right.memory_bytes else 0,
    )


def _is_limited(pod: Pod, name: str) -> bool:
    if pod.spec.resources is not None and name in pod.spec.resources.limits:
        return True
    containers: list[Container] = init_and_main_containers(pod.spec)
    return all(name in container.resources.limits for container in containers)
