"""Interface of the work that a real node does around the containers of a pod; hollow nodes do none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import Container, Pod, PodStatus
from sampan.kubelet.pod_status import Verdict
from sampan.runtimes.contract import PodReport, RuntimeFailure

if TYPE_CHECKING:
    from sampan.kubelet.records import PodRecord


@dataclass(frozen=True, slots=True)
class Kill:
    """A running container that has to be stopped, with the message of its event."""

    container: Container
    id: str
    message: str
    grace_s: float | None = None
    """Overrides the grace period of the pod."""


class AlreadyTold(RuntimeFailure):
    """A failure whose event has already been recorded."""


class Provision(Protocol):
    """Errors are raised as RuntimeFailure. Its reason becomes that of the pod's event or of the container's waiting
    state.
    """

    def refusal(self, pod: Pod) -> Verdict | None:
        """Return why the node rejects the pod, or None if it admits it."""

    def forbidden(self, pod: Pod) -> Verdict | None:
        """Return why an admitted pod may no longer run on this node, or None."""

    async def admit(self, record: PodRecord) -> Verdict | None:
        """Allocate what has to be requested from others, such as devices. Return the rejection if that fails. Called
        once, before anything else is done for the pod.
        """

    def told(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status extended by what only the node knows, such as the health of allocated devices."""

    def report(self, pod: Pod) -> PodReport:
        """Return the runtime report of the pod, extended by probe results and termination messages."""

    def to_kill(self, record: PodRecord, report: PodReport) -> Sequence[Kill]: ...

    async def prepare(self, record: PodRecord) -> None:
        """Do everything that precedes the sandbox: checks, cgroups, directories, volumes. Returns quickly if all is
        done.
        """

    async def run_sandbox(self, record: PodRecord) -> None: ...

    async def start(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        """Pull the image, create and start the container, and run its postStart hook."""

    async def stop(self, record: PodRecord, name: str, grace_s: float) -> None:
        """Start stopping a container, with its preStop hook within the grace period. May be called again with a shorter
        one.
        """

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        """Maintain the running pod, for example its resources. Return the seconds until the next call, or None."""

    async def give_back(self, pod: Pod) -> None:
        """Release what other pods may use as soon as this one is reported as terminated. No container of it runs any
        more.
        """

    async def release(self, pod: Pod) -> None:
        """Remove what was created for the pod except its logs. No container of it runs any more."""

    async def clean_up(self, pod: Pod) -> None:
        """Remove everything that was created for the pod, including its logs."""
