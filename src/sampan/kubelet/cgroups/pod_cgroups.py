"""The cgroups of a node's pods and their limits (`pod_container_manager_linux.go`, `qos_container_manager_linux.go` and
`helpers_linux.go` of `pkg/kubelet/cm`).
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable
from dataclasses import replace

from sampan.api.semantics.pod_qos import BEST_EFFORT, GUARANTEED, qos_class
from sampan.api.semantics.pod_resources import effective_limits, effective_requests
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, Pod
from sampan.kubelet.cgroups.hierarchy import Hierarchy
from sampan.kubelet.container_config.resources import quota, shares
from sampan.runtimes.config import Resources

log = logging.getLogger(__name__)

PODS = "kubepods"
_QOS_CLASSES = ("burstable", "besteffort")
VERSION_1 = (
    "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. "
    "Please migrate to cgroup v2. More information at "
    "https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1"
)


class PodCgroups:
    """`root` is the parent of the node's cgroups. If they cannot be written, pods run without pod-level limits."""

    def __init__(self, *, root: str = "", hierarchy: Hierarchy | None = None, pids: int = 0) -> None:
        self._hierarchy = hierarchy or Hierarchy()
        self._top = f"{root.rstrip('/')}/{PODS}"
        self._root = root.rstrip("/")
        self._pids = pids
        self._written: dict[str, tuple[str, Resources]] = {}
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
            whole = Resources(cpu_shares=shares(cores * 1000), memory_bytes=memory_bytes)
            self._hierarchy.limit(self._top, whole)
            self._hierarchy.limit(f"{self._top}/besteffort", Resources(cpu_shares=shares(0)))
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
        uid, desired = pod.metadata.uid, (self.parent(pod), pod_limits(pod, pids=self._pids))
        if self._written.get(uid) == desired:
            return
        self._hierarchy.make(desired[0])
        self._hierarchy.limit(*desired)
        self._written[uid] = desired
        self._set_burstable_shares()

    def widen(self, pod: Pod) -> None:
        """Set the larger of the current and the new limits, before its containers are resized. Raise OSError if that
        fails.
        """
        before = self._written.get(pod.metadata.uid)
        if not self.is_usable or before is None:
            return
        desired = pod_limits(pod, pids=self._pids)
        self._hierarchy.limit(before[0], wider(before[1], desired))
        self._written[pod.metadata.uid] = (before[0], wider(before[1], desired))

    def remove(self, uid: str) -> None:
        """Remove the pod's cgroup and kill whatever still runs in it."""
        if not self.is_usable:
            return
        self._written.pop(uid, None)
        for qos in ("", *_QOS_CLASSES):
            cgroup = f"{self._top}/{qos}/pod{uid}"
            if not self._hierarchy.remove(cgroup):
                _kill(self._hierarchy.processes(cgroup))
                self._hierarchy.remove(cgroup)
        self._set_burstable_shares()

    def known(self) -> set[str]:
        """Return the UIDs of the pods that have a cgroup."""
        if not self.is_usable:
            return set()
        names = set[str]().union(*(self._hierarchy.children(f"{self._top}/{qos}") for qos in ("", *_QOS_CLASSES)))
        return {name.removeprefix("pod") for name in names if name.startswith("pod")}

    def stop(self) -> None:
        """Remove all cgroups that contain no process."""
        if self.is_usable:
            self._hierarchy.remove(self._root if self._root else self._top)

    def _set_burstable_shares(self) -> None:
        """Set the CPU shares of the burstable class to the sum of its pods."""
        prefix = f"{self._top}/burstable/"
        total = sum(limits.cpu_shares for cgroup, limits in self._written.values() if cgroup.startswith(prefix))
        try:
            self._hierarchy.limit(f"{self._top}/burstable", Resources(cpu_shares=max(total, shares(0))))
        except OSError as error:
            log.debug("cannot set the CPU weight of the burstable QoS cgroup: %s", error)


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


_QOS_DIRECTORIES = {GUARANTEED: "", BEST_EFFORT: "besteffort/"}


def cgroup_of(pod: Pod) -> str:
    """Return the path of the pod's cgroup relative to that of all pods."""
    qos = pod.status.qosClass or qos_class(pod.spec)
    return f"{_QOS_DIRECTORIES.get(qos, 'burstable/')}pod{pod.metadata.uid}"


def pod_limits(pod: Pod, *, pids: int = 0) -> Resources:
    """Return the limits of the pod. A resource is limited only if the pod or every container has a limit."""
    if qos_class(pod.spec) == BEST_EFFORT:
        return Resources(cpu_shares=shares(0), pids=pids)
    requests, limits = effective_requests(pod.spec), effective_limits(pod.spec)
    cpu = requests["cpu"].milli_value() if "cpu" in requests else 0
    has_cpu, has_memory = (_is_limited(pod, name) for name in ("cpu", "memory"))
    return Resources(
        cpu_shares=shares(cpu),
        cpu_quota=quota(limits["cpu"].milli_value()) if has_cpu else 0,
        memory_bytes=limits["memory"].value() if has_memory else 0,
        pids=pids,
    )


def wider(left: Resources, right: Resources) -> Resources:
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
