"""The interface that every runtime implements, modelled on CRI: sandboxes, containers, images, exec, logs, stats.

Calls that start a long operation return once it has started. The runtime then calls `PodCallback` with the uid of each
pod that has changed, and the kubelet reads the new state with `pod_report`. A report is a snapshot that must be cheap
to produce, because the kubelet requests one each time it syncs a pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sampan.api.types.core_v1 import Container, Pod
from sampan.runtimes.config import ContainerConfig, ContainerResources, SandboxConfig

if TYPE_CHECKING:
    from sampan.runtimes.images.credentials import Keyring, RegistryCredentials

CREATED, RUNNING, EXITED, UNKNOWN = "created", "running", "exited", "unknown"
COMPLETED, ERROR, OOM_KILLED = "Completed", "Error", "OOMKilled"
START_ERROR, START_ERROR_CODE = "StartError", 128
"""Reason and exit code of a container that was created but could not be started, as containerd reports them."""
KILLED_CODE = 137
"""Exit code of a process that was killed with SIGKILL, or whose exit code was lost."""

PodCallback = Callable[[str], None]
"""A callback that takes the uid of a pod whose state has changed."""
STDOUT, STDERR = 1, 2


@dataclass(frozen=True, slots=True)
class ContainerUser:
    """The user and groups that the first process of a container was started with."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(slots=True)
class ContainerReport:
    """The state of one container. Among containers with the same name the one with the highest `attempt` is current."""

    name: str
    id: str
    """The container id with the name of the runtime as scheme: `hollow://…`."""
    state: str
    attempt: int
    """The number of earlier runs of this container."""
    image: str
    image_ref: str
    started_at: float = 0
    finished_at: float = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    is_started: bool = False
    """Whether the container is running and its startup probe, if there is one, has succeeded."""
    is_ready: bool = False
    """Whether the container is running and its readiness probe, if there is one, succeeds."""
    user: ContainerUser | None = None
    """The user of the container's first process; None if the runtime does not know it."""


@dataclass(slots=True)
class PodReport:
    """The state of all sandboxes and containers of a pod. The sequences must not be changed."""

    is_sandbox_ready: bool = False
    sandboxes: int = 0
    """The number of sandboxes that the pod has had so far."""
    ips: Sequence[str] = ()
    containers: Sequence[ContainerReport] = ()
    """The current run of each container."""
    before: Sequence[ContainerReport] = ()
    """The previous run of each container that has had several."""
    changes_in_s: float | None = None
    """Seconds until the next change, if the runtime can predict it; otherwise changes are reported through
    `PodCallback`.
    """

    _by_name: dict[str, ContainerReport] | None = field(default=None, init=False, repr=False, compare=False)
    _previous_by_name: dict[str, ContainerReport] | None = field(default=None, init=False, repr=False, compare=False)

    def container(self, name: str) -> ContainerReport | None:
        if self._by_name is None:
            self._by_name = {report.name: report for report in reversed(self.containers)}
        return self._by_name.get(name)

    def previous(self, name: str) -> ContainerReport | None:
        if self._previous_by_name is None:
            self._previous_by_name = {report.name: report for report in reversed(self.before)}
        return self._previous_by_name.get(name)


EMPTY_REPORT = PodReport()


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounters:
    """The traffic of a network interface. Received and sent are bytes."""

    name: str
    received: int = 0
    received_packets: int = 0
    receive_errors: int = 0
    receive_dropped: int = 0
    sent: int = 0
    sent_packets: int = 0
    send_errors: int = 0
    send_dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuThrottling:
    """How often the CPU limit of a container took effect."""

    periods: int
    throttled_periods: int
    throttled_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """What a container has read from and written to a disk."""

    device: str
    """The path of the device, such as /dev/sda."""
    reads: int = 0
    writes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass(slots=True)
class ContainerUsage:
    """Resource usage of a container, or of the whole sandbox if `name` is empty. None means that the value is
    unknown."""

    name: str
    cpu_cores: float
    """The current rate of CPU usage in cores."""
    memory_bytes: int
    """Working set in bytes."""
    cpu_s: float | None = None
    """CPU time in seconds since the container started."""
    memory_rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    disk_bytes: int | None = None
    """Size of the container's writable layer."""
    log_bytes: int | None = None
    inodes: int | None = None
    processes: int | None = None
    received_bytes: int | None = None
    """Bytes received over the network; reported for the sandbox only, like `sent_bytes`."""
    sent_bytes: int | None = None
    interfaces: Sequence[InterfaceCounters] = ()
    """The network interfaces of the sandbox except loopback; none if they are unknown."""
    cache_bytes: int | None = None
    """Page cache in bytes."""
    swap_bytes: int | None = None
    throttling: CpuThrottling | None = None
    """None for a container without a CPU limit, too."""
    disks: Sequence[DiskCounters] = ()
    """The disks that the container has read or written; none if they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    id: str
    names: Sequence[str] = ()
    digests: Sequence[str] = ()
    size: int = 0
    user: str = ""
    """The user set in the image: a uid or a user name, optionally followed by a colon and a group. Empty means root."""
    volumes: Sequence[str] = ()
    is_pinned: bool = False
    """Whether image garbage collection must keep this image."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """The result of an image pull."""

    reference: str
    credentials: RegistryCredentials | None = None
    """The credentials of the keyring that were accepted; None if the image was pulled anonymously."""
    continues: bool = False
    """Whether the image arrives only before the container runs, which simulated pulls do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHandler:
    """A runtime handler, which a RuntimeClass selects by name. The default handler has an empty name."""

    name: str = ""
    has_recursive_read_only: bool = False
    has_user_namespaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    errors: Sequence[str] = ()
    has_mount_options: bool = False
    """Whether the runtime heeds the options of mounts."""
    """Why the runtime cannot run pods now; the texts become the message of the node's Ready condition."""
    handlers: Sequence[RuntimeHandler] = ()
    """The runtime handlers, sorted by name; empty if the runtime does not report them."""
    heeds_groups_policy: bool | None = None
    """Whether the runtime supports supplementalGroupsPolicy; None if it does not report that."""


class RuntimeFailure(Exception):
    """An operation of the runtime failed; `reason` becomes the reason of the container's waiting state."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Unsupported(RuntimeFailure):
    """The runtime does not support the operation."""

    def __init__(self, message: str) -> None:
        super().__init__("Unsupported", message)


class UnknownHandler(RuntimeFailure):
    """A RuntimeClass names a handler that the runtime does not have."""

    def __init__(self, name: str) -> None:
        message = f'failed to get sandbox runtime: no runtime for "{name}" is configured'
        super().__init__("FailedCreatePodSandBox", message)


class Runtime(Protocol):
    """The runtime of one node. Operations raise RuntimeFailure.

    Configurations are None only for a runtime that does not run real containers.
    """

    @property
    def name(self) -> str:
        """The scheme of container ids."""

    @property
    def version(self) -> str: ...

    async def status(self) -> RuntimeStatus:
        """Return whether the runtime can run pods now, and its handlers."""

    # -- state -------------------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        """Take over a pod that may have been started before the kubelet was restarted. The kubelet calls this when it
        sees a pod for the first time."""

    def list_pod_uids(self) -> Sequence[str]:
        """Return the uids of all pods that have a sandbox or container in the runtime."""

    def pod_report(self, pod: Pod) -> PodReport:
        """Return the current state of the pod, which is empty for an unknown pod."""

    async def stats(self, pod: Pod) -> Sequence[ContainerUsage]:
        """Return the usage of each running container, preceded by that of the sandbox if the runtime knows it."""

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        """Allocate the addresses of new sandboxes from these pod CIDRs."""

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        """Create the pod's sandbox and its network, replacing an earlier sandbox."""

    async def stop_sandbox(self, pod: Pod) -> None:
        """Release the network of the sandbox. The kubelet has stopped all containers before."""

    async def remove_pod(self, uid: str) -> None:
        """Remove the sandbox, containers and records of the pod, killing containers that still run."""

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        """Return the image with that name, id or digest, or None if it is not present."""

    async def images(self) -> Sequence[ImageInfo]: ...

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> PullResult:
        """Pull the image of the container. The reason of a failure is ErrImagePull or InvalidImageName, among
        others."""

    def pull_progress(self, name: str) -> tuple[int, int] | None:
        """Return how many bytes of an image that is being pulled have arrived, and how many are fetched in all; None if
        that is unknown."""

    async def remove_image(self, name: str) -> None: ...

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        """Create and start a container in the pod's sandbox, and return its id.

        A failure with the reason RunContainerError means that the container was created but cannot be started, for
        example because its command does not exist. It is reported as exited from then on, so that the restart policy
        and the backoff apply to it. After any other failure there is no container.
        """

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        """Send the stop signal to the container, and SIGKILL after the grace period. Returns at once, without waiting
        for the container. A later call with a shorter grace period replaces an earlier one."""

    async def remove_container(self, pod: Pod, id: str) -> None:
        """Remove a stopped container with its files and log."""

    async def update_resources(self, pod: Pod, name: str, resources: ContainerResources) -> None:
        """Change the resource limits of a running container."""

    # -- exec, attach, port forwarding, logs -------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        """Start a command in a running container."""

    async def attach(self, pod: Pod, container: str, *, has_stdin: bool = False) -> ProcessStream:
        """Connect to the main process of a running container.

        With `has_stdin` the client sends input, which is ignored if the container has no stdin. When its input ends, or
        when it disconnects, the stdin of a container with stdinOnce and without a terminal is closed. Any other
        container keeps its stdin open for the next client, and the output for this client ends.
        """

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port on the loopback address of the pod."""

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        """Return the path of the container's log in the CRI log format, or None if there is none."""

    def log_text(self, pod: Pod, container: str) -> str | None:
        """Return the log of a container whose runtime has no log files, or None if the log is a file."""

    async def reopen_log(self, pod: Pod, container: str) -> None:
        """Continue the log in a new file at the same path, after log rotation has renamed the old one."""


class ProcessStream(Protocol):
    """A process with attached streams. All output of a process with a terminal is STDOUT. `close` may be called at any
    time; it kills a process that was started for this stream."""

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next piece of output with its channel, or None at the end of both channels."""

    async def write(self, data: bytes) -> None:
        """Write to stdin. Do nothing if stdin is closed."""

    async def close_input(self) -> None:
        """Signal the end of input. A process with a terminal does not notice it."""

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal in characters."""

    async def wait(self) -> int:
        """Wait for the exit of the process, and return its exit code. For an attached container, wait for the end of
        the output and return 0: its exit code is in its report."""

    async def close(self) -> None: ...


async def collect_output(stream: ProcessStream, maximum: int = 16 << 20) -> tuple[int, bytes, bytes]:
    """Wait for the exit of the process. Return the exit code, stdout and stderr, of each output no more than `maximum`
    bytes."""
    out: dict[int, bytearray] = {STDOUT: bytearray(), STDERR: bytearray()}
    try:
        while (piece := await stream.read()) is not None:
            channel, data = piece
            out[channel] += data[: max(maximum - len(out[channel]), 0)]
        code = await stream.wait()
    finally:
        await stream.close()
    return code, bytes(out[STDOUT]), bytes(out[STDERR])
