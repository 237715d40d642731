"""The contract of runtimes, shaped like CRI: sandboxes, containers, images, exec, logs, stats.

Calls that begin something long return when it has begun; `Told` says which pod to look at when something has changed,
and `pod_report` then tells how things are. A report is a snapshot that the runtime keeps cheap: the kubelet asks for it
whenever it looks at a pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sampan.api.types.core_v1 import Container, Pod
from sampan.runtimes.config import ContainerConfig, Resources, SandboxConfig
from sampan.runtimes.streams import ProcessStream

if TYPE_CHECKING:
    from sampan.runtimes.images.credentials import Credentials, Keyring

CREATED, RUNNING, EXITED, UNKNOWN = "created", "running", "exited", "unknown"
COMPLETED, ERROR, OOM_KILLED = "Completed", "Error", "OOMKilled"

Told = Callable[[str], None]
"""Called with the uid of a pod of which something has changed."""


@dataclass(frozen=True, slots=True)
class User:
    """Whom a container's first process began as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


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
    user: User | None = None
    """Where that is known."""


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
    """What a container uses, or with an empty name its sandbox as a whole. What a runtime cannot tell is None."""

    name: str
    cpu_cores: float
    """At the moment."""
    memory_bytes: int
    """The working set."""
    cpu_s: float | None = None
    """Since it began."""
    memory_rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    disk_bytes: int | None = None
    """Of its own files."""
    log_bytes: int | None = None
    inodes: int | None = None
    processes: int | None = None
    received_bytes: int | None = None
    """By network; of the sandbox."""
    sent_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    id: str
    names: Sequence[str] = ()
    digests: Sequence[str] = ()
    size: int = 0
    user: str = ""
    """Whom the image wants to run as: a number or a name, perhaps with a group behind a colon; empty: root."""
    volumes: Sequence[str] = ()
    is_pinned: bool = False
    """Not to be removed for room."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """An image that was fetched."""

    reference: str
    credentials: Credentials | None = None
    """Those of the keyring by which it was had; None: without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One of the ways to run pods, which a RuntimeClass may ask for; of the usual one the name is empty."""

    name: str = ""
    has_recursive_read_only: bool = False
    has_user_namespaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    faults: Sequence[str] = ()
    """Why no pod can be run at the moment, in the words of the node's condition."""
    handlers: Sequence[Handler] = ()
    """By their names; none where the runtime does not tell."""
    heeds_groups_policy: bool | None = None
    """Whether it heeds supplementalGroupsPolicy; None where it does not tell."""


class RuntimeFailure(Exception):
    """The runtime could not do it; `reason` is the word that the container's waiting state shows."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Unsupported(RuntimeFailure):
    """This runtime cannot do it at all."""

    def __init__(self, message: str) -> None:
        super().__init__("Unsupported", message)


class UnknownHandler(RuntimeFailure):
    """A RuntimeClass asks for a way to run pods that there is not."""

    def __init__(self, name: str) -> None:
        told = f'failed to get sandbox runtime: no runtime for "{name}" is configured'
        super().__init__("FailedCreatePodSandBox", told)


class Runtime(Protocol):
    """One node's runtime. What it raises is RuntimeFailure.

    Configs are None only for a runtime that runs nothing real.
    """

    @property
    def name(self) -> str:
        """As in a container's id."""

    @property
    def version(self) -> str: ...

    async def status(self) -> RuntimeStatus:
        """Whether pods can be run now, and in which ways."""

    # -- what there is -----------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        """The kubelet, newly begun, sees this pod for the first time: the runtime may have it from before."""

    def known_pods(self) -> Sequence[str]:
        """The uids of all pods that the runtime has anything of."""

    def pod_report(self, pod: Pod) -> PodReport:
        """How the pod is now; of one that the runtime does not have, nothing at all."""

    async def stats(self, pod: Pod) -> Sequence[Usage]:
        """What the sandbox (first, where it can be told) and each running container use."""

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        """Addresses of sandboxes come from these from now on."""

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        """Make the pod's sandbox, with its network, or make it anew."""

    async def stop_sandbox(self, pod: Pod) -> None:
        """Take the sandbox's network away; its containers have ended."""

    async def remove_pod(self, uid: str) -> None:
        """Forget everything about the pod; what still runs of it is killed."""

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        """The image of that name, id or digest, if it is there."""

    async def images(self) -> Sequence[ImageInfo]: ...

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> Pulled:
        """Fetch the container's image. A failure's reason is ErrImagePull and the like."""

    async def remove_image(self, name: str) -> None: ...

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        """Create and start a container in the pod's sandbox; its id."""

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        """Ask the container to end, and kill it after the grace. Returns at once; a shorter grace may follow."""

    async def remove_container(self, pod: Pod, id: str) -> None:
        """Forget one that has ended, with its files and log."""

    async def update_resources(self, pod: Pod, name: str, resources: Resources) -> None:
        """Other limits for a running container."""

    # -- looking in --------------------------------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        """Begin a command in a running container."""

    async def attach(self, pod: Pod, container: str) -> ProcessStream:
        """Connect to a running container's own process."""

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To a port of the pod's own loopback address."""

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        """Where the container's output is, in CRI's form; None if there is none."""

    async def reopen_log(self, pod: Pod, container: str) -> None:
        """The log was moved away: go on in a new file of the old name."""


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
    "Handler",
    "ImageInfo",
    "PodReport",
    "Pulled",
    "Runtime",
    "RuntimeFailure",
    "RuntimeStatus",
    "Told",
    "UnknownHandler",
    "Unsupported",
    "Usage",
    "User",
]
