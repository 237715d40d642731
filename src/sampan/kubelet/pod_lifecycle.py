"""The interface between the sync loop and the node: the operations on a pod at each point of its life.

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
    """Grace period that overrides the one of the pod; None to use that of the pod."""


class ReportedFailure(RuntimeFailure):
    """A failure about which an event has already been recorded."""


class PodLifecycle(Protocol):
    """The operations of a node on its pods. Errors are raised as RuntimeFailure, whose reason becomes the reason of the
    pod's event or of the container's waiting state.
    """

    def has_slow_start(self) -> bool:
        """Whether preparing a pod may take long, so that its initial status has to be published first."""

    def has_leftovers(self, pod: Pod) -> bool:
        """Whether volumes, cgroups or containers of a pod that has terminated may be left on the node, also from an
        earlier kubelet.
        """

    # -- admission ---------------------------------------------------------------------------------------------------

    def admission_failure(self, pod: Pod) -> PodFailure | None:
        """Return why the node rejects the pod, apart from its requests, host ports and node selector, or None."""

    def permission_failure(self, pod: Pod) -> PodFailure | None:
        """Return why an admitted pod may no longer run on this node, or None."""

    async def allocate_devices(self, record: PodRecord) -> PodFailure | None:
        """Allocate the devices and other resources that have to be requested from plugins. Return the rejection if
        that fails. This is called once, before any other step of the pod.
        """

    # -- state -------------------------------------------------------------------------------------------------------

    def report(self, record: PodRecord) -> PodReport:
        """Return the runtime report of the pod, extended by probe results and termination messages."""

    def extend_status(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status extended by values that only the node has, such as the health of allocated devices."""

    def containers_to_kill(self, record: PodRecord, report: PodReport) -> Sequence[ContainerKill]:
        """Return the running containers to stop while the pod keeps running, because of failed probes, changed images
        or resizes.
        """

    # -- running -----------------------------------------------------------------------------------------------------

    async def prepare(self, record: PodRecord) -> None:
        """Do everything that precedes the sandbox: checks, cgroups, directories, volumes. Return quickly if all of it
        is done.
        """

    async def run_sandbox(self, record: PodRecord) -> None: ...

    async def start_container(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        """Pull the image, create and start the container, and run its postStart hook."""

    async def stop_container(self, record: PodRecord, name: str, grace_s: float) -> None:
        """Start stopping a container, with its preStop hook within the grace period. It may be called again with a
        shorter grace period.
        """

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        """Maintain the running pod, for example its resources. Return the seconds until the next call, or None."""

    # -- termination -------------------------------------------------------------------------------------------------

    async def release_devices(self, record: PodRecord) -> None:
        """Release the devices of the pod, which other pods may use as soon as this pod is reported as terminated. None
        of its containers runs any more.
        """

    async def release(self, record: PodRecord) -> None:
        """Remove everything that was created for the pod except its containers and logs. None of its containers runs
        any more.
        """

    async def remove(self, record: PodRecord) -> None:
        """Kill the containers that still run, and remove everything that was created for the pod,
        including its logs.
        """
