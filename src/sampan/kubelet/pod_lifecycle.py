"""The interface between the sync loop and the node: what is done for a pod at each point of its life.

Counterparts: the container manager's and kuberuntime's part of `SyncPod` in `pkg/kubelet`. A real node implements it in
`agent/real_pod_lifecycle.py`, hollow nodes in `hollow_pod_lifecycle.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import Container, Pod, PodStatus
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.records import PodRecord
from sampan.runtimes.contract import PodReport, RuntimeFailure


@dataclass(frozen=True, slots=True)
class ContainerKill:
    """A running container that has to be stopped, with the message of its event."""

    container: Container
    id: str
    message: str
    grace_s: float | None = None
    """Overrides the grace period of the pod."""


class ReportedFailure(RuntimeFailure):
    """A failure whose event has already been recorded."""


class PodLifecycle(Protocol):
    """Errors are raised as RuntimeFailure. Its reason becomes that of the pod's event or of the container's waiting
    state.
    """

    def has_slow_start(self) -> bool:
        """Whether preparing a pod may take long, so that its initial status is published before."""

    def has_leftovers(self, pod: Pod) -> bool:
        """Whether something of a pod that has terminated may be left on the node, also from an earlier kubelet."""

    # -- admission ---------------------------------------------------------------------------------------------------

    def admission_failure(self, pod: Pod) -> PodFailure | None:
        """Return why the node rejects the pod, apart from its requests, host ports and node selector, or None."""

    def permission_failure(self, pod: Pod) -> PodFailure | None:
        """Return why an admitted pod may no longer run on this node, or None."""

    async def allocate_devices(self, record: PodRecord) -> PodFailure | None:
        """Allocate what has to be requested from others, such as devices. Return the rejection if that fails. Called
        once, before anything else is done for the pod.
        """

    # -- state -------------------------------------------------------------------------------------------------------

    def report(self, record: PodRecord) -> PodReport:
        """Return the runtime report of the pod, extended by probe results and termination messages."""

    def extend_status(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status extended by what only the node knows, such as the health of allocated devices."""

    def containers_to_kill(self, record: PodRecord, report: PodReport) -> Sequence[ContainerKill]:
        """Return the running containers to stop while the pod keeps running: failed probes, changed images, resizes."""

    # -- running -----------------------------------------------------------------------------------------------------

    async def prepare(self, record: PodRecord) -> None:
        """Do everything that precedes the sandbox: checks, cgroups, directories, volumes. Returns quickly if all is
        done.
        """

    async def run_sandbox(self, record: PodRecord) -> None: ...

    async def start_container(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        """Pull the image, create and start the container, and run its postStart hook."""

    async def stop_container(self, record: PodRecord, name: str, grace_s: float) -> None:
        """Start stopping a container, with its preStop hook within the grace period. May be called again with a shorter
        one.
        """

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        """Maintain the running pod, for example its resources. Return the seconds until the next call, or None."""

    # -- termination -------------------------------------------------------------------------------------------------

    async def release_devices(self, record: PodRecord) -> None:
        """Release what other pods may use as soon as this one is reported as terminated. No container of it runs any
        more.
        """

    async def release(self, record: PodRecord) -> None:
        """Remove what was created for the pod except its containers and logs. No container of it runs any more."""

    async def remove(self, record: PodRecord) -> None:
        """Kill whatever still runs, and remove everything that was created for the pod, including its logs."""
