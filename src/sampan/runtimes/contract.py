"""The contract of runtimes, shaped like CRI: sandboxes, containers, images, exec, logs, stats.

Calls that begin something long return when it has begun; `Told` says which pod to look at when something has changed,
and `pod_report` then tells how things are. A report is a snapshot that the runtime keeps cheap: the kubelet asks for it
whenever it looks at a pod.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sampan.api.types.core_v1 import Container, Pod

CREATED, RUNNING, EXITED, UNKNOWN = "created", "running", "exited", "unknown"
COMPLETED, ERROR, OOM_KILLED = "Completed", "Error", "OOMKilled"

Told = Callable[[str], None]
"""Called with the uid of a pod of which something has changed."""


@dataclass(slots=True)
class ContainerReport:
    """A container as the runtime has it. Of several of one name the one with the highest `attempt` is the present."""

    name: str
    id: str
    """With the runtime's name before it: `hollow://…`."""
    state: str
    attempt: int
    """How often the container of this name was started before."""
    image: str
    image_ref: str
    started_at: float = 0
    finished_at: float = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    is_started: bool = False
    """Running, and its startup probe, if there is one, has succeeded."""
    is_ready: bool = False
    """Running, and its readiness probe, if there is one, succeeds."""


@dataclass(slots=True)
class PodReport:
    """Everything the runtime has of a pod."""

    is_sandbox_ready: bool = False
    sandboxes: int = 0
    """How many sandboxes the pod has had."""
    ips: Sequence[str] = ()
    containers: Sequence[ContainerReport] = ()
    """The present one of each name."""
    before: Sequence[ContainerReport] = ()
    """Of each name the one before the present, where there was one."""
    changes_in_s: float | None = None
    """In how many seconds something will have changed, where that is known beforehand; else `Told` tells."""

    def container(self, name: str) -> ContainerReport | None:
        return next((found for found in self.containers if found.name == name), None)

    def previous(self, name: str) -> ContainerReport | None:
        return next((found for found in self.before if found.name == name), None)


NOTHING = PodReport()


@dataclass(slots=True)
class Usage:
    """What a container uses at the moment."""

    name: str
    cpu_cores: float
    memory_bytes: int


class RuntimeFailure(Exception):
    """The runtime could not do it; `reason` is the word that the container's waiting state shows."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Unsupported(RuntimeFailure):
    """This runtime cannot do it at all."""

    def __init__(self, message: str) -> None:
        super().__init__("Unsupported", message)


class Runtime(Protocol):
    """One node's runtime. What it raises is RuntimeFailure."""

    @property
    def name(self) -> str:
        """As in a container's id."""

    @property
    def version(self) -> str: ...

    def adopt(self, pod: Pod) -> None:
        """The kubelet, newly begun, sees this pod for the first time: the runtime may have it from before."""

    def pod_report(self, pod: Pod) -> PodReport:
        """How the pod is now; of one that the runtime does not have, nothing at all."""

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        """Addresses of sandboxes come from these from now on."""

    async def run_sandbox(self, pod: Pod) -> None:
        """Make the pod's sandbox, with its network, or make it anew."""

    async def stop_sandbox(self, pod: Pod) -> None:
        """Take the sandbox's network away; its containers have ended."""

    async def remove_pod(self, uid: str) -> None:
        """Forget everything about the pod; what still runs of it is killed."""

    async def pull_image(self, pod: Pod, container: Container) -> str:
        """See that the container's image is there; its reference. A failure's reason is ErrImagePull and the like."""

    async def start_container(self, pod: Pod, container: Container, attempt: int) -> str:
        """Create and start a container in the pod's sandbox; its id."""

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        """Ask the container to end, and kill it after the grace. Returns at once; a shorter grace may follow."""

    async def exec(self, pod: Pod, container: str, command: Sequence[str]) -> tuple[int, bytes, bytes]:
        """Run a command in a container to its end: its exit code, output and error output."""

    def logs(self, pod: Pod, container: str, *, previous: bool = False) -> AsyncIterator[bytes]:
        """What the container has written so far."""

    async def stats(self, pod: Pod) -> Sequence[Usage]:
        """What each running container uses."""


__all__ = [
    "COMPLETED",
    "CREATED",
    "ERROR",
    "EXITED",
    "NOTHING",
    "OOM_KILLED",
    "RUNNING",
    "UNKNOWN",
    "ContainerReport",
    "PodReport",
    "Runtime",
    "RuntimeFailure",
    "Told",
    "Unsupported",
    "Usage",
]
