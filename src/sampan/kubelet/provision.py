"""What a real node does around the containers of its pods; a hollow node does none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod, PodStatus
from sampan.kubelet.pod_status import Verdict
from sampan.runtimes.contract import PodReport, RuntimeFailure

if TYPE_CHECKING:
    from sampan.kubelet.records import PodRecord

AnyContainer = Container | EphemeralContainer


@dataclass(frozen=True, slots=True)
class Kill:
    """A running container that must not go on, and why, in the words of its event."""

    container: Container
    id: str
    message: str
    grace_s: float | None = None
    """Instead of the pod's."""


class AlreadyTold(RuntimeFailure):
    """People know: no event is made of it."""


class Provision(Protocol):
    """What it raises is RuntimeFailure, whose reason is that of the pod's event or of the container's waiting state."""

    def refusal(self, pod: Pod) -> Verdict | None:
        """Why the node does not take the pod; None if it does."""

    def forbidden(self, pod: Pod) -> Verdict | None:
        """Why a pod that the node has taken may not go on here."""

    async def admit(self, record: PodRecord) -> Verdict | None:
        """Why the pod cannot have what has to be asked for elsewhere: devices. Asked once, before anything is done."""

    def told(self, pod: Pod, status: PodStatus) -> PodStatus:
        """The status, with what only the node knows: how the pod's devices are."""

    def report(self, pod: Pod) -> PodReport:
        """What the runtime has of the pod, with what probes and termination messages say."""

    def to_kill(self, record: PodRecord, report: PodReport) -> Sequence[Kill]: ...

    async def prepare(self, record: PodRecord) -> None:
        """Everything before the sandbox: checks, groups, folders, volumes. Quick where all is there already."""

    async def run_sandbox(self, record: PodRecord) -> None: ...

    async def start(self, record: PodRecord, container: AnyContainer, attempt: int) -> None:
        """Pull, configure, create, start, and carry out the hook after that."""

    async def stop(self, record: PodRecord, name: str, grace_s: float) -> None:
        """Begin to stop a container: its hook first, within the grace. Again with a shorter grace if need be."""

    async def sync_running(self, record: PodRecord, report: PodReport) -> float | None:
        """See to what goes on running: its resources; after how many seconds to look again."""

    async def give_back(self, pod: Pod) -> None:
        """Nothing of the pod runs any more: let go of what others get as soon as it is said that the pod has ended."""

    async def release(self, pod: Pod) -> None:
        """Nothing of the pod runs any more: take away what was made for it, but for its logs."""

    async def clean_up(self, pod: Pod) -> None:
        """The same, with all that is left."""


__all__ = ["AlreadyTold", "AnyContainer", "Kill", "Provision"]
