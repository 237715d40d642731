"""The OCI runtime of one node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sampan.api import limits
from sampan.api.types.core_v1 import Container, Pod
from sampan.host.clock import Clock
from sampan.host.linux.user_namespace import is_group_mapped
from sampan.host.worker_thread import run_in_thread
from sampan.machinery.telemetry.flight_recorder import step_part
from sampan.runtimes import contract, kernel
from sampan.runtimes.config import (
    ContainerConfig,
    ContainerResources,
    ContainerSecurity,
    Mount,
    SandboxConfig,
    resolv_conf,
)
from sampan.runtimes.contract import (
    ContainerUsage,
    ImageInfo,
    PodCallback,
    ProcessStream,
    PullResult,
    RuntimeFailure,
    RuntimeHandler,
    RuntimeStatus,
    UnknownHandler,
)
from sampan.runtimes.images import ImageStore, ImageUnknown
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.images.manifests import BadImage, RunConfig
from sampan.runtimes.images.mounts import unmount_all
from sampan.runtimes.images.pull import ImagePuller
from sampan.runtimes.images.supply import ImageSupply
from sampan.runtimes.monitor.client import MonitorError, OperationFailed
from sampan.runtimes.monitored import MonitoredRuntime
from sampan.runtimes.network import PodNetwork, bandwidth_of, connect_to_port
from sampan.runtimes.oci import cdi, cgroups, pause, sandbox
from sampan.runtimes.oci.binary import OciBinary, OciCommands, read_last_error
from sampan.runtimes.oci.cgroups import OciUsage
from sampan.runtimes.oci.images import OciImages
from sampan.runtimes.oci.mandatory_access import apparmor_profile, check_selinux, has_selinux, loaded_profiles
from sampan.runtimes.oci.spec import TTY_GROUP, SpecInputs, container_spec, linux_resources, user
from sampan.runtimes.oci.users import identity
from sampan.runtimes.pod_state import PodState
from sampan.runtimes.records import ContainerRecord
from sampan.runtimes.safe_paths import UnsafePath, read_file
from sampan.runtimes.usage import pod_usage

_LATEST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_CGROUP_NAMESPACE = Path("/proc/self/ns/cgroup")


class _StartFailed(Exception):
    """The OCI runtime program rejects the container, for example because its command does not exist. To programs that
    prepare a process at their `create`, as to containerd, this is a failure of the start."""


class OciRuntime(MonitoredRuntime):
    """Runs containers with crun or runc. `programs` maps runtime handlers to the paths of programs; the first one is
    the default, and a RuntimeClass may select another."""

    name = "oci"

    def __init__(
        self,
        *,
        directory: Path,
        images: ImageStore,
        network: PodNetwork,
        programs: Mapping[str, str],
        clock: Clock,
        on_pod_change: PodCallback,
        puller: ImagePuller | None = None,
        node_network: Path | None = None,
    ) -> None:
        """`node_network` is the network namespace of the node, if that is not the one of this process."""
        super().__init__(directory=directory, clock=clock, on_pod_change=on_pod_change)
        self._network, self._node_network = network, node_network
        self._images = OciImages(store=images, supply=ImageSupply(directory=directory), puller=puller)
        self._programs = {name: OciBinary(path, directory / "state" / name) for name, path in programs.items()}
        self._usual = next(iter(programs))
        self._usage = OciUsage(clock=clock)
        self._has_cgroups = cgroups.is_writable()
        """Whether containers have cgroups of their own. Otherwise they are in the cgroup of this process and have no
        limits."""
        self._commands = OciCommands(directory=directory, records=self._records, monitor=self._monitor)

    @property
    def version(self) -> str:
        return self._programs[self._usual].version

    async def __aenter__(self) -> OciRuntime:
        for program in self._programs.values():
            await program.detect_features()
        return await super().__aenter__()

    # -- state -------------------------------------------------------------------------------------------------------

    async def status(self) -> RuntimeStatus:
        by_name = {"": self._programs[self._usual], **self._programs}
        handlers = [
            RuntimeHandler(name=name, has_recursive_read_only=by_name[name].has_recursive_read_only)
            for name in sorted(by_name)
        ]
        return RuntimeStatus(handlers=handlers, heeds_groups_policy=True, has_mount_options=True)

    async def stats(self, pod: Pod) -> Sequence[ContainerUsage]:
        uid = pod.metadata.uid
        state = self._pods.get(uid)
        if state is None or not (records := list(state.list_running_containers())):
            return []
        containers = [
            await asyncio.to_thread(self._usage.measure_container, record, self._records.container(uid, record.id))
            for record in records
        ]
        pid = records[0].pid if "network" in state.spaces else 0
        return [pod_usage(containers, pid=pid), *containers]

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        self._network.use_pod_cidrs(cidrs)

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        assert config is not None
        if config.handler and config.handler not in self._programs:
            raise UnknownHandler(config.handler)
        state = await self._replace_sandbox_record(config)
        state.sandbox.cgroup_parent = (config.cgroup_parent or f"/sampan/{config.uid}") if self._has_cgroups else ""
        state.sandbox.program = config.handler or self._usual
        self._records.save_sandbox(state.sandbox)
        try:
            await self._make_sandbox(state, config)
        except OSError as error:
            raise RuntimeFailure("FailedCreatePodSandBox", str(error)) from None

    async def _make_sandbox(self, state: PodState, config: SandboxConfig) -> None:
        record, directory = state.sandbox, self._records.pod(config.uid)
        state.spaces = await sandbox.make_namespaces(config, directory)
        sandbox.make_files(config, directory, resolv_conf(config.dns))
        if config.namespaces.pid == "pod":
            record.pause = f"pause-{record.uid}-{record.sandbox_count}"
            pid = await self._run_pause(state, config)
            state.spaces["pid"] = await asyncio.to_thread(sandbox.pin_pid_namespace, pid, directory)
        if "network" in state.spaces:
            namespace, bandwidth = Path(state.spaces["network"]), bandwidth_of(config.annotations)
            with step_part("connect the network"):
                record.ips = list(await self._network.attach(config.uid, namespace, config.ports, bandwidth))
        record.is_ready = True
        self._records.save_sandbox(record)

    async def _run_pause(self, pod: PodState, config: SandboxConfig) -> int:
        """Start the pause container, and return its pid."""
        id, directory = pod.sandbox.pause, self._records.pod(config.uid) / pause.DIRECTORY
        container = pause.pause_config(id, directory)
        inputs = SpecInputs(
            root=await run_in_thread(pause.make_root, directory),
            namespaces={**self._namespaces(pod, container), "pid": ""},
            cgroup=f"{pod.sandbox.cgroup_parent.rstrip('/')}/{id}" if pod.sandbox.cgroup_parent else "",
            identity=pause.pause_identity(),
            has_tty_group=is_group_mapped(TTY_GROUP),
            last_capability=_last_capability(),
        )
        spec = container_spec(container, config, RunConfig(), inputs)
        (directory / "config.json").write_bytes(msgspec.json.encode(spec))
        pid_file, log_file = directory / "pid", directory / "runtime.log"
        words = ("create", "--bundle", str(directory), "--pid-file", str(pid_file), id)
        try:
            pid = await self._monitor.run(id, self._program(pod).argv(*words, log=log_file), pid_file=str(pid_file))
        except MonitorError as error:
            message = read_last_error(log_file) or error.message
            raise RuntimeFailure("FailedCreatePodSandBox", f"pause container: {message}") from None
        await self._program(pod).call("start", id)
        await pause.wait_until_running(pid)
        return pid

    async def _end_pause(self, pod: PodState) -> None:
        record = pod.sandbox
        await self._kill_process(record.pause)
        with contextlib.suppress(RuntimeFailure):
            await self._program(pod).call("delete", "--force", record.pause)
        await asyncio.to_thread(unmount_all, self._records.pod(record.uid) / pause.DIRECTORY)
        if record.cgroup_parent:
            await asyncio.to_thread(cgroups.remove, f"{record.cgroup_parent.rstrip('/')}/{record.pause}")

    async def _end_sandbox(self, pod: PodState) -> None:
        record, directory = pod.sandbox, self._records.pod(pod.sandbox.uid)
        await self._network.detach(record.uid)
        if record.pause:
            await self._end_pause(pod)
        await asyncio.to_thread(unmount_all, directory / "ns")
        await asyncio.to_thread(unmount_all, directory / "files")
        record.is_ready, record.pause, pod.spaces = False, "", {}
        self._records.save_sandbox(record)

    async def _release_pod(self, pod: PodState) -> None:
        await asyncio.to_thread(unmount_all, self._records.pod(pod.sandbox.uid))
        await asyncio.to_thread(cgroups.remove, pod.sandbox.cgroup_parent)

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        return self._images.get(name)

    async def images(self) -> Sequence[ImageInfo]:
        return self._images.list()

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> PullResult:
        return await self._images.pull(container.image, keyring)

    def pull_progress(self, name: str) -> tuple[int, int] | None:
        return self._images.pull_progress(name)

    async def remove_image(self, name: str) -> None:
        await self._images.remove(name, [record for pod in self._pods.values() for record in pod.containers.values()])

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        assert config is not None
        state = self._find_ready_pod(pod.metadata.uid)
        record = self._create_container_record(state, config, attempt)
        directory = self._records.container(state.sandbox.uid, record.id)
        try:
            await self._prepare(state, record, config, directory)
            record.pid = await self._create(state, record, config, directory)
            self._records.save_container(state.sandbox.uid, record)
            await self._start(state, record)
        except _StartFailed as error:
            await self._record_start_failure(state, record, str(error))
            raise RuntimeFailure("RunContainerError", str(error)) from None
        except (OSError, BadImage, ImageUnknown, UnsafePath) as error:
            await self._remove(state, record)
            raise RuntimeFailure("CreateContainerError", str(error)) from None
        except BaseException:
            await self._remove(state, record)
            raise
        self._note_start(state, record)
        return f"{self.name}://{record.id}"

    async def _prepare(self, pod: PodState, record: ContainerRecord, config: ContainerConfig, directory: Path) -> None:
        """Mount the root file system and the volumes of the container, and write its OCI configuration."""
        assert pod.config is not None
        async with self._images.unpack_slot(config):
            image, root = await run_in_thread(self._images.mount, record, config, directory)
            record.stop_signal = config.stop_signal or image.stop_signal
            config = await run_in_thread(self._images.mount_volumes, record, config, directory)
        if not self._has_cgroups:
            config = replace(config, resources=ContainerResources(oom_score_adjust=config.resources.oom_score_adjust))
        await run_in_thread(_check_propagation, config.mounts)
        sandbox_config = await run_in_thread(self._collect_spec_inputs, pod, record, config, image, root)
        spec = container_spec(_drop_rejected_settings(config), pod.config, image, sandbox_config)
        if config.cdi_devices:
            spec = cdi.apply_edits(spec, await asyncio.to_thread(cdi.collect_edits, config.cdi_devices))
        pod.specs[record.id], record.user = spec["process"], user(spec)
        (directory / "config.json").write_bytes(msgspec.json.encode(spec))

    async def _create(self, pod: PodState, record: ContainerRecord, config: ContainerConfig, directory: Path) -> int:
        """Create the container, whose first process waits until the container is started, and return its pid."""
        log_file, pid_file = directory / "runtime.log", directory / "pid"
        words = ("create", "--bundle", str(directory), "--pid-file", str(pid_file))
        argv = self._program(pod).argv(*words, log=log_file)
        request: dict[str, Any] = {"log": record.log_path, "exit": str(directory / "exit"), "pid_file": str(pid_file)}
        request |= {"stdin": config.has_stdin, "tty": config.has_tty, "stdin_once": config.closes_stdin}
        if config.has_tty:
            request["console"] = str(self._directory / f"tty-{record.id[:12]}")
            argv += ["--console-socket", request["console"]]
        try:
            return await self._monitor.run(record.id, [*argv, record.id], **request)
        except OperationFailed as error:
            raise _StartFailed(read_last_error(log_file) or error.message) from None
        except MonitorError as error:
            raise RuntimeFailure("CreateContainerError", error.message) from None

    async def _start(self, pod: PodState, record: ContainerRecord) -> None:
        try:
            await self._program(pod).call("start", record.id)
        except RuntimeFailure as error:
            # a container that exits at once may be gone before the start command sees it
            if record.state != contract.EXITED:
                raise _StartFailed(error.message) from None

    def _collect_spec_inputs(
        self, pod: PodState, record: ContainerRecord, config: ContainerConfig, image: RunConfig, root: Path
    ) -> SpecInputs:
        assert pod.config is not None
        files = sandbox.make_files(pod.config, self._records.pod(pod.sandbox.uid), resolv_conf(pod.config.dns))
        check_selinux(config.security, is_enabled=has_selinux())
        profile = config.security.seccomp
        local = _read_profile(Path(profile.local)) if profile.type == "Localhost" else None
        return SpecInputs(
            root=root,
            namespaces=self._namespaces(pod, config),
            cgroup=record.cgroup,
            files=files,
            identity=identity(config.security, image.user, root),
            has_tty_group=is_group_mapped(TTY_GROUP),
            last_capability=_last_capability(),
            held_capabilities=kernel.held_capabilities(),
            seccomp=local,
            apparmor=apparmor_profile(config.security, loaded_profiles()),
        )

    def _namespaces(self, pod: PodState, config: ContainerConfig) -> dict[str, str]:
        modes = config.namespaces
        paths = {"mount": "", **{kind: path for kind, path in pod.spaces.items() if kind != "pid"}}
        if "network" not in paths and self._node_network is not None:
            paths["network"] = str(self._node_network)
        if not config.security.is_privileged and _CGROUP_NAMESPACE.exists():
            paths["cgroup"] = ""
        if modes.pid == "pod":
            paths["pid"] = pod.spaces.get("pid", "")
        elif modes.pid == "target":
            target = pod.containers.get(modes.target.removeprefix(f"{self.name}://"))
            if target is None or target.state != contract.RUNNING:  # its pid may be that of another process by now
                raise RuntimeFailure("CreateContainerError", "the target container is not running")
            paths["pid"] = f"/proc/{target.pid}/ns/pid"
        elif modes.pid == "container":
            paths["pid"] = ""
        return paths

    async def update_resources(self, pod: Pod, name: str, resources: ContainerResources) -> None:
        state, record = self._find_running_container(pod, name)
        value = linux_resources(resources, ContainerSecurity())
        del value["devices"]
        path = self._records.container(state.sandbox.uid, record.id) / "resources.json"
        path.write_bytes(msgspec.json.encode(value))
        await self._program(state).call("update", "--resources", str(path), record.id)

    # -- exec, port forwarding ---------------------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        state, record = self._find_running_container(pod, container)
        return await self._commands.exec(
            self._program(state),
            record.id,
            self._records.container(state.sandbox.uid, record.id),
            command,
            process=state.specs.get(record.id),
            has_stdin=has_stdin,
            has_tty=has_tty,
        )

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        state = self._pods.get(pod.metadata.uid)
        if state is None or not state.sandbox.is_ready:
            raise RuntimeFailure("NotFound", "the pod has no sandbox")
        space = state.spaces.get("network")
        return await connect_to_port(port, Path(space) if space is not None else self._node_network)

    # -- exits -------------------------------------------------------------------------------------------------------

    async def _release_container(self, pod: PodState, record: ContainerRecord) -> None:
        with contextlib.suppress(RuntimeFailure):
            await self._program(pod).call("delete", "--force", record.id)
        directory = self._records.container(pod.sandbox.uid, record.id)
        await asyncio.to_thread(unmount_all, directory)
        await asyncio.to_thread(cgroups.remove, record.cgroup)
        self._usage.forget(record)

    def _was_out_of_memory(self, record: ContainerRecord) -> bool:
        return record.memory_bytes > 0 and cgroups.count_oom_kills(record.cgroup) > 0

    def _on_exit(self, exit_report: dict[str, Any]) -> None:
        """Record an exit. Without its pause container a pod has no PID namespace: it needs a new sandbox."""
        super()._on_exit(exit_report)
        for pod in self._pods.values():
            if pod.sandbox.pause == exit_report["id"] and pod.sandbox.is_ready:
                pod.sandbox.is_ready = False  # which `_find_namespaces` also sets after a restart
                self._on_pod_change(pod.sandbox.uid)

    async def _find_namespaces(self, pod: PodState, running: dict[str, dict[str, Any]]) -> None:
        record = pod.sandbox
        pod.spaces = sandbox.find_pinned_namespaces(self._records.pod(record.uid) / "ns")
        if record.pause:
            process = running.get(record.pause)
            if process is None or process["code"] is not None:
                record.is_ready = False
            elif "pid" not in pod.spaces:
                directory = self._records.pod(record.uid)
                pod.spaces["pid"] = await asyncio.to_thread(sandbox.pin_pid_namespace, process["pid"], directory)
        if record.is_ready and not record.host_network and "network" not in pod.spaces:
            record.is_ready = False  # the machine was rebooted

    def _program(self, pod: PodState) -> OciBinary:
        """Return the program that the pod was started with, or the default one if it is no longer installed."""
        return self._programs.get(pod.sandbox.program) or self._programs[self._usual]


def _last_capability() -> int:
    return int(_LATEST_CAPABILITY.read_text())


def _check_propagation(mounts: Sequence[Mount]) -> None:
    """Raise RuntimeFailure, as containerd does, if mounts of the container are to reach the node but cannot."""
    for mount in mounts:
        if mount.propagation == "rshared" and mount.source is not None:
            point, is_shared = kernel.find_mount(Path(mount.source))
            if not is_shared:
                message = f'path "{mount.source}" is mounted on "{point}" but it is not a shared mount'
                raise RuntimeFailure("CreateContainerError", message)


def _read_profile(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(read_file(path, limits.CONTAINER_FILE_BYTES), type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise RuntimeFailure("CreateContainerError", f"seccomp profile {path.name}: {error}") from None


def _drop_rejected_settings(config: ContainerConfig) -> ContainerConfig:
    """Return the configuration without settings that this machine rejects: an OOM score that this process may not set,
    and limits for huge pages if there is no hugetlb controller."""
    score = kernel.clamp_oom_score(config.resources.oom_score_adjust)
    pages = config.resources.huge_pages if cgroups.can_limit("hugetlb") else {}
    return replace(config, resources=replace(config.resources, oom_score_adjust=score, huge_pages=pages))
