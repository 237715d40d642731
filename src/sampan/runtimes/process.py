"""The runtime `process`, in which a container is a session of plain processes of the machine.

It needs no root privileges and isolates nothing: containers see the files and processes of the machine, share its
network (the pod IP is the node IP), run as the user that runs Sampan, and have no resource limits. A pod that asks for
more is rejected with a message that names the unsupported fields; they are not silently ignored. The only image is
`sampan.local/host`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import Container, Pod
from sampan.host.clock import Clock
from sampan.runtimes.config import ContainerConfig, ContainerResources, ContainerSecurity, Mount, SandboxConfig
from sampan.runtimes.contract import (
    ContainerUsage,
    ContainerUser,
    ImageInfo,
    PodCallback,
    ProcessStream,
    PullResult,
    RuntimeFailure,
    RuntimeStatus,
    Unsupported,
)
from sampan.runtimes.images import host
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.monitor.client import MonitorError, OperationFailed
from sampan.runtimes.monitored import MonitoredRuntime
from sampan.runtimes.network import connect_to_port
from sampan.runtimes.pod_state import PodState
from sampan.runtimes.records import ContainerRecord
from sampan.runtimes.usage import CpuRates

_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
"""The environment variables that containers inherit from Sampan. Other variables are withheld, as they may contain
tokens."""
_ONLY_IMAGE = f"runtime process cannot run images, only programs of the machine: use the image {host.NAME}"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessRuntime(MonitoredRuntime):
    """Runs containers as plain processes. `address` is the node's address, which is the pod IP of all its pods."""

    name, version = "process", "1.0"

    def __init__(
        self, *, directory: Path, clock: Clock, on_pod_change: PodCallback, address: str = "127.0.0.1"
    ) -> None:
        super().__init__(directory=directory, clock=clock, on_pod_change=on_pod_change)
        self._address = address
        self._rates = CpuRates()
        self._requests: dict[str, dict[str, Any]] = {}
        """The monitor request of each container by id, which exec reuses for additional commands."""

    async def status(self) -> RuntimeStatus:
        """Return the status. supplementalGroupsPolicy is supported only for root, as only root can drop groups."""
        return RuntimeStatus(heeds_groups_policy=os.geteuid() == 0)

    async def stats(self, pod: Pod) -> Sequence[ContainerUsage]:
        state = self._pods.get(pod.metadata.uid)
        return [
            await asyncio.to_thread(self._usage, record)
            for record in (state.list_running_containers() if state is not None else ())
        ]

    def _usage(self, record: ContainerRecord) -> ContainerUsage:
        used = _session_usage(record.name, record.pid)
        used.cpu_cores = self._rates.rate(record.id, used.cpu_s or 0.0, self._clock.monotonic())
        return used

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        return  # all pods use the node's address

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        assert config is not None
        if lacking := refusal(unsupported_sandbox_features(config)):
            raise RuntimeFailure("FailedCreatePodSandBox", lacking)
        state = await self._replace_sandbox_record(config)
        record = state.sandbox
        record.is_ready, record.host_network, record.ips = True, True, [self._address]
        self._records.save_sandbox(record)

    async def _end_sandbox(self, pod: PodState) -> None:
        pod.sandbox.is_ready = False
        self._records.save_sandbox(pod.sandbox)

    async def _release_pod(self, pod: PodState) -> None:
        return  # there is nothing besides the records

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        return host.info() if host.is_host(name) else None

    async def images(self) -> Sequence[ImageInfo]:
        return [host.info()]

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> PullResult:
        if host.is_host(container.image):
            return PullResult(host.ID)
        raise RuntimeFailure("ErrImagePull", f"{container.image}: {_ONLY_IMAGE}")

    def pull_progress(self, name: str) -> tuple[int, int] | None:
        return None

    async def remove_image(self, name: str) -> None:
        return

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        assert config is not None
        state = self._find_ready_pod(pod.metadata.uid)
        if not host.is_host(config.image):
            raise RuntimeFailure("CreateContainerError", f"{config.image}: {_ONLY_IMAGE}")
        if lacking := refusal(unsupported_features(config)):
            raise RuntimeFailure("CreateContainerError", lacking)
        record = self._create_container_record(state, config, attempt)
        directory = self._records.container(state.sandbox.uid, record.id)
        request = self._request(state, config, directory)
        try:
            record.pid = await self._monitor.run(record.id, _argv(config), **request)
        except OperationFailed as error:
            message = f"{' '.join(_argv(config)[:1])}: {error.message}"
            await self._record_start_failure(state, record, message)
            raise RuntimeFailure("RunContainerError", message) from None
        except MonitorError as error:
            await self._remove(state, record)
            raise RuntimeFailure("CreateContainerError", error.message) from None
        self._requests[record.id], record.user = request, _user(request)
        self._note_start(state, record)
        return f"{self.name}://{record.id}"

    def _request(self, pod: PodState, config: ContainerConfig, directory: Path) -> dict[str, Any]:
        work = directory / "work"
        work.mkdir(parents=True, exist_ok=True)
        account = next((str(mount.source) for mount in config.mounts if mount.target.startswith(ACCOUNT)), "")
        env = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | dict(config.env)
        if account:
            env["SAMPAN_SERVICE_ACCOUNT"] = account
        security = config.security
        request: dict[str, Any] = {
            "env": env,
            "cwd": config.working_directory or str(work),
            "log": str(config.log_path),
            "exit": str(directory / "exit"),
            "stdin": config.has_stdin,
            "stdin_once": config.closes_stdin,
            "tty": config.has_tty,
        }
        if os.geteuid() == 0 and _asks_for_user(security):
            group = security.group or 0
            groups_of = list(dict.fromkeys((group, *security.supplemental_groups)))
            request |= {"user": security.user or 0, "group": group, "groups": groups_of}
        return request

    async def _signal(self, record: ContainerRecord, number: int) -> None:
        """Send a signal to the whole process group: a container has no other boundary."""
        try:
            await self._monitor.kill(record.id, number, group=True)
        except MonitorError:
            return

    async def _release_container(self, pod: PodState, record: ContainerRecord) -> None:
        """Kill the processes that the exited main process has left behind."""
        self._requests.pop(record.id, None)
        if record.pid:
            await asyncio.to_thread(_kill_session, record.pid, signal.SIGKILL)

    async def update_resources(self, pod: Pod, name: str, resources: ContainerResources) -> None:
        raise Unsupported("runtime process does not support resource limits")

    # -- exec, port forwarding ---------------------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        state, record = self._find_running_container(pod, container)
        directory = self._records.container(state.sandbox.uid, record.id)
        begun = self._requests.get(record.id, {"cwd": str(directory / "work"), "env": dict(os.environ)})
        request = {key: begun[key] for key in ("env", "cwd", "user", "group", "groups") if key in begun}
        id = f"exec-{secrets.token_hex(8)}"
        try:
            return await self._monitor.exec(id, list(command), stdin=has_stdin, tty=has_tty, **request)
        except MonitorError as error:
            raise RuntimeFailure("ExecFailed", error.message) from None

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await connect_to_port(port, None)


def _argv(config: ContainerConfig) -> list[str]:
    own = host.CONFIG.run
    return [*config.command, *config.args] if config.command else [*(own.cmd or ()), *config.args]


def _asks_for_user(security: ContainerSecurity) -> bool:
    ids = security.user, security.group
    return ids != (None, None) or bool(security.supplemental_groups) or security.supplemental_policy == "Strict"


def _user(request: Mapping[str, Any]) -> ContainerUser:
    """Return the user of a monitor request, or the user of Sampan if the request sets none."""
    if "user" not in request:
        return ContainerUser(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    return ContainerUser(request["user"], request["group"], tuple(request["groups"]))


KUBELET_MOUNTS = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm", "/dev/termination-log")
"""Mounts that the kubelet adds to every container. They are omitted: a process uses the machine's own files instead."""
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def unsupported_features(config: ContainerConfig, uid: int | None = None) -> Iterator[str]:
    """Yield a description of each unsupported feature of a container. `uid` is the user that runs Sampan."""
    own, security = os.geteuid() if uid is None else uid, config.security
    if security.is_privileged:
        yield "be privileged"
    if security.user not in (None, own) and own != 0:
        yield f"run as user {security.user}"
    if security.is_root_read_only:
        yield "have a read-only root"
    if security.added:
        yield f"have the capabilities {', '.join(security.added)}"
    if config.cdi_devices:
        yield f"have the devices {', '.join(config.cdi_devices)}"
    for device in config.devices:
        if device.path != device.host_path:
            yield f"have a device at {device.path}"
    for mount in config.mounts:
        if not is_ignored(mount):
            yield f"have a volume at {mount.target}"


def unsupported_sandbox_features(config: SandboxConfig) -> Iterator[str]:
    if config.namespaces.pid == "pod":
        yield "share its own processes' namespace"
    if config.sysctls:
        yield "have sysctls of its own"


def is_ignored(mount: Mount) -> bool:
    return mount.target in KUBELET_MOUNTS or mount.target.startswith(ACCOUNT)


def refusal(features: Iterator[str]) -> str:
    """Return an error message that lists the unsupported features, or an empty string if there are none."""
    phrases = list(features)
    return f"with the runtime process a container cannot {', nor '.join(phrases)}" if phrases else ""


def _session_members(leader: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the pid and the fields of /proc/PID/stat after the name, for each process of the session with that leader.
    The processes of a container form one session."""
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            text = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        if int(fields[3]) == leader:
            yield int(name), fields


def _session_usage(name: str, leader: int) -> ContainerUsage:
    cpu_s, memory, count, minor, major = 0.0, 0, 0, 0, 0
    for _, fields in _session_members(leader):
        cpu_s += (int(fields[11]) + int(fields[12])) / _TICKS
        memory += int(fields[21]) * _PAGE
        minor += int(fields[7])
        major += int(fields[9])
        count += 1
    return ContainerUsage(
        name=name,
        cpu_cores=0.0,
        memory_bytes=memory,
        cpu_s=cpu_s,
        memory_rss_bytes=memory,
        page_faults=minor,
        major_page_faults=major,
        processes=count,
    )


def _kill_session(leader: int, number: int) -> None:
    """Send a signal to all remaining processes of the session."""
    for pid, _ in list(_session_members(leader)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
