"""The runtime `oci` of one node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.types.core_v1 import Container, Pod
from sampan.machinery.clock import Clock
from sampan.runtimes import contract, kernel, oom_scores
from sampan.runtimes.config import ContainerConfig, Resources, SandboxConfig, Security
from sampan.runtimes.contract import ImageInfo, RuntimeFailure, Told, Usage
from sampan.runtimes.images import BadReference, Image, ImageStore, ImageUnknown, host, parse_reference
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.images.manifests import BadImage, RunConfig
from sampan.runtimes.images.pull import Puller, PullFailed
from sampan.runtimes.monitor.client import MonitorError
from sampan.runtimes.monitored import MonitoredRuntime, PodState
from sampan.runtimes.network import PodNetwork
from sampan.runtimes.oci import cdi, cgroups, image_volumes, rootfs, sandbox
from sampan.runtimes.oci.binary import OciBinary, logged_fault
from sampan.runtimes.oci.spec import Around, container_spec, resources
from sampan.runtimes.oci.users import identity
from sampan.runtimes.records import ContainerRecord, SandboxRecord
from sampan.runtimes.resolver import resolv_conf
from sampan.runtimes.streams import ProcessStream

_LATEST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_PAUSE = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait $!; done"]


class OciRuntime(MonitoredRuntime):
    name = "oci"

    def __init__(
        self,
        *,
        folder: Path,
        images: ImageStore,
        network: PodNetwork,
        binary: str,
        clock: Clock,
        told: Told,
        puller: Puller | None = None,
    ) -> None:
        super().__init__(folder=folder, clock=clock, told=told)
        self._images, self._network, self._puller = images, network, puller
        self._binary = OciBinary(binary, folder / "state")
        self._host: host.HostRoot | None = None
        self._making_host = threading.Lock()
        self._cpu: dict[str, tuple[float, float]] = {}
        """When a container's use of the processor was last looked at, and how much it was."""

    @property
    def version(self) -> str:
        return self._binary.version

    async def __aenter__(self) -> OciRuntime:
        await self._binary.look()
        return await super().__aenter__()

    # -- what there is -----------------------------------------------------------------------------------------------

    async def stats(self, pod: Pod) -> Sequence[Usage]:
        found = self._pods.get(pod.metadata.uid)
        running = [each for each in found.containers.values() if each.state == contract.RUNNING] if found else []
        return [await asyncio.to_thread(self._usage, pod.metadata.uid, each) for each in running]

    def _usage(self, uid: str, record: ContainerRecord) -> Usage:
        used, now = cgroups.usage(record.cgroup), self._clock.now()
        before = self._cpu.get(record.id)
        self._cpu[record.id] = (now, used.cpu_s)
        cores = (used.cpu_s - before[1]) / (now - before[0]) if before is not None and now > before[0] else 0.0
        size, inodes = rootfs.written_bytes(self._records.container(uid, record.id))
        with contextlib.suppress(OSError):
            log_bytes = os.path.getsize(record.log_path)
            return _usage(record.name, cores, used, size, inodes, log_bytes)
        return _usage(record.name, cores, used, size, inodes, 0)

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        self._network.use_pod_cidrs(cidrs)

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        assert config is not None
        uid = config.uid
        old = self._pods.get(uid)
        if old is not None:
            await self._end_containers(old)
            await self._end_sandbox(old)
        record = SandboxRecord(
            uid=uid,
            name=config.name,
            namespace=config.namespace,
            attempt=config.attempt,
            created_at=self._clock.now(),
            is_ready=False,
            host_network=config.namespaces.network == "node",
            cgroup_parent=config.cgroup_parent or f"/sampan/{uid}",
            hostname=config.hostname,
            made=old.sandbox.made + 1 if old is not None else 1,
        )
        made = self._pods[uid] = PodState(record)
        if old is not None:
            made.containers = old.containers
        self._records.save_sandbox(record)
        try:
            await self._make_sandbox(made, config)
        except OSError as fault:
            raise RuntimeFailure("FailedCreatePodSandBox", str(fault)) from None

    async def _make_sandbox(self, made: PodState, config: SandboxConfig) -> None:
        record, folder = made.sandbox, self._records.pod(config.uid)
        made.config = config
        _write_json(folder / "config.json", config)
        made.spaces = await sandbox.make_namespaces(config, folder)
        sandbox.make_files(config, folder, resolv_conf(config.dns))
        if config.namespaces.pid == "pod":
            await self._run_pause(made)
        if "network" in made.spaces:
            record.ips = list(await self._network.attach(config.uid, Path(made.spaces["network"]), config.ports))
        record.is_ready = True
        self._records.save_sandbox(record)

    async def _run_pause(self, made: PodState) -> None:
        """The first process of a namespace that all containers of the pod share: it inherits what they leave."""
        record = made.sandbox
        record.pause = f"pause-{record.uid}-{record.made}"
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *_PAUSE]
        pid = await self._monitor.run(record.pause, argv)
        made.spaces["pid"] = f"/proc/{await _only_child(pid)}/ns/pid"

    async def stop_sandbox(self, pod: Pod) -> None:
        found = self._pods.get(pod.metadata.uid)
        if found is not None and found.sandbox.is_ready:
            await self._end_sandbox(found)

    async def _end_sandbox(self, pod: PodState) -> None:
        record, folder = pod.sandbox, self._records.pod(pod.sandbox.uid)
        await self._network.detach(record.uid)
        if record.pause:
            await self._kill_process(record.pause)
        await asyncio.to_thread(rootfs.unmount_all, folder / "ns")
        await asyncio.to_thread(rootfs.unmount_all, folder / "files")
        record.is_ready, record.pause, pod.spaces = False, "", {}
        self._records.save_sandbox(record)

    async def remove_pod(self, uid: str) -> None:
        found = self._pods.get(uid)
        if found is None:
            return
        await self._end_containers(found)
        for record in list(found.containers.values()):
            await self._remove(found, record)
        await self._end_sandbox(found)
        folder = self._records.pod(uid)
        await asyncio.to_thread(rootfs.unmount_all, folder)
        self._records.remove(folder)
        await asyncio.to_thread(cgroups.remove, found.sandbox.cgroup_parent)
        del self._pods[uid]

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        if host.is_host(name):
            return host.info()
        try:
            return _info(self._images.get(name))
        except ImageUnknown:
            return None

    async def images(self) -> Sequence[ImageInfo]:
        return [host.info(), *(_info(each) for each in self._images.list())]

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> str:
        name = container.image
        if host.is_host(name):
            return host.ID
        try:
            wanted = parse_reference(name)
        except BadReference as fault:
            raise RuntimeFailure("InvalidImageName", f"Failed to apply default image tag {name!r}: {fault}") from None
        if self._puller is None:
            raise RuntimeFailure("ErrImagePull", f"{name}: there is no way to a registry")
        try:
            return (await self._puller.pull(wanted, keyring or Keyring())).reference
        except PullFailed as fault:
            raise RuntimeFailure("ErrImagePull", f"failed to pull image {name!r}: {fault}") from None

    async def remove_image(self, name: str) -> None:
        with contextlib.suppress(ImageUnknown):
            self._images.remove(name)
        records = [each for pod in self._pods.values() for each in pod.containers.values()]
        used = [digest for each in records for digest in (each.image_digest, *each.volume_digests)]
        await asyncio.to_thread(self._images.prune, [digest for digest in used if digest])

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        assert config is not None
        found = self._pods.get(pod.metadata.uid)
        if found is None or found.config is None or not found.sandbox.is_ready:
            raise RuntimeFailure("CreateContainerError", "the pod has no sandbox")
        record = ContainerRecord(
            id=secrets.token_hex(16),
            name=config.name,
            attempt=attempt,
            image=config.image,
            image_ref=config.image_ref,
            created_at=self._clock.now(),
            log_path=str(config.log_path),
            has_tty=config.has_tty,
            memory_bytes=config.resources.memory_bytes,
        )
        record.cgroup = f"{found.sandbox.cgroup_parent.rstrip('/')}/{record.id}"
        found.containers[record.id] = record
        self._records.save_container(found.sandbox.uid, record)
        try:
            await self._create(found, record, config)
        except (OSError, BadImage, ImageUnknown) as fault:
            await self._remove(found, record)
            raise RuntimeFailure("CreateContainerError", str(fault)) from None
        except BaseException:
            await self._remove(found, record)
            raise
        await self._start(found, record)
        return f"{self.name}://{record.id}"

    async def _create(self, pod: PodState, record: ContainerRecord, config: ContainerConfig) -> None:
        assert pod.config is not None
        uid, folder = pod.sandbox.uid, self._records.container(pod.sandbox.uid, record.id)
        image, root = await asyncio.to_thread(self._mount, record, config, folder)
        record.stop_signal = config.stop_signal or image.stop_signal
        if any(mount.image for mount in config.mounts):
            config = await asyncio.to_thread(self._with_image_volumes, record, config, folder)
        around = await asyncio.to_thread(self._around, pod, record, config, image, root)
        config = _with_allowed_score(config)
        spec = container_spec(config, pod.config, image, around)
        if config.cdi_devices:
            spec = cdi.applied(spec, await asyncio.to_thread(cdi.edits, config.cdi_devices))
        pod.specs[record.id] = spec["process"]
        (folder / "config.json").write_bytes(msgspec.json.encode(spec))
        log_file, pid_file = folder / "runtime.log", folder / "pid"
        argv = self._binary.argv("create", "--bundle", str(folder), "--pid-file", str(pid_file), log=log_file)
        request: dict[str, Any] = {"log": record.log_path, "exit": str(folder / "exit"), "pid_file": str(pid_file)}
        request |= {"stdin": config.has_stdin, "tty": config.has_tty, "stdin_once": config.closes_stdin}
        if config.has_tty:
            request["console"] = str(self._folder / f"tty-{record.id[:12]}")
            argv += ["--console-socket", request["console"]]
        try:
            record.pid = await self._monitor.run(record.id, [*argv, record.id], **request)
        except MonitorError as fault:
            raise RuntimeFailure("CreateContainerError", logged_fault(log_file) or fault.message) from None
        self._records.save_container(uid, record)

    async def _start(self, pod: PodState, record: ContainerRecord) -> None:
        try:
            await self._binary.call("start", record.id)
        except RuntimeFailure as fault:
            if record.state != contract.EXITED:  # one that ended at once may be gone before the program has looked
                await self._remove(pod, record)
                raise RuntimeFailure("RunContainerError", fault.message) from None
        if record.state == contract.CREATED:
            record.state, record.started_at = contract.RUNNING, self._clock.now()
        self._records.save_container(pod.sandbox.uid, record)

    def _mount(self, record: ContainerRecord, config: ContainerConfig, folder: Path) -> tuple[RunConfig, Path]:
        if host.is_host(config.image):
            with self._making_host:  # several threads may come here at a time
                if self._host is None:
                    self._host = host.host_root(self._folder / "host")
            return host.CONFIG.run, rootfs.mount_host(self._host, folder)
        try:
            image = self._images.get(config.image_ref or config.image)
        except ImageUnknown:
            image = self._images.get(config.image)
        record.image_digest = image.digest
        return image.config.run, rootfs.mount_layers(self._images.lower_layers(image), folder)

    def _with_image_volumes(self, record: ContainerRecord, config: ContainerConfig, folder: Path) -> ContainerConfig:
        def layers(name: str) -> Sequence[Path]:
            if host.is_host(name):
                raise RuntimeFailure("CreateContainerError", f"{name} cannot be a volume")
            image = self._images.get(name)
            record.volume_digests.append(image.digest)
            return self._images.lower_layers(image)

        return replace(config, mounts=image_volumes.mounted(config.mounts, folder, layers))

    def _around(
        self, pod: PodState, record: ContainerRecord, config: ContainerConfig, image: RunConfig, root: Path
    ) -> Around:
        assert pod.config is not None
        files = sandbox.make_files(pod.config, self._records.pod(pod.sandbox.uid), resolv_conf(pod.config.dns))
        profile = config.security.seccomp
        local = msgspec.json.decode(Path(profile.local).read_bytes()) if profile.type == "Localhost" else None
        return Around(
            root=root,
            namespaces=self._namespaces(pod, config),
            cgroup=record.cgroup,
            files=files,
            identity=identity(config.security, image.user, root),
            last_capability=int(_LATEST_CAPABILITY.read_text()),
            held_capabilities=kernel.held_capabilities(),
            seccomp=local,
        )

    def _namespaces(self, pod: PodState, config: ContainerConfig) -> dict[str, str]:
        wanted = config.namespaces
        found = {"mount": "", **{kind: path for kind, path in pod.spaces.items() if kind != "pid"}}
        if wanted.pid == "pod":
            found["pid"] = pod.spaces.get("pid", "")
        elif wanted.pid == "target":
            target = pod.containers.get(wanted.target.removeprefix(f"{self.name}://"))
            found["pid"] = f"/proc/{target.pid}/ns/pid" if target is not None and target.pid else ""
        elif wanted.pid == "container":
            found["pid"] = ""
        return found

    async def update_resources(self, pod: Pod, name: str, wanted: Resources) -> None:
        found, record = self._running(pod, name)
        value = resources(wanted, Security())
        del value["devices"]
        path = self._records.container(found.sandbox.uid, record.id) / "resources.json"
        path.write_bytes(msgspec.json.encode(value))
        await self._binary.call("update", "--resources", str(path), record.id)

    # -- looking in --------------------------------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        found, record = self._running(pod, container)
        folder = self._records.container(found.sandbox.uid, record.id)
        spec = found.specs.get(record.id) or msgspec.json.decode((folder / "config.json").read_bytes())["process"]
        asked = {**spec, "args": list(command), "terminal": has_tty}
        scratch = folder / f"exec-{secrets.token_hex(8)}"
        scratch.mkdir()
        try:
            (scratch / "process.json").write_bytes(msgspec.json.encode(asked))
            return await self._begin_exec(record.id, scratch, has_stdin=has_stdin, has_tty=has_tty)
        finally:
            self._records.remove(scratch)

    async def _begin_exec(self, id: str, scratch: Path, *, has_stdin: bool, has_tty: bool) -> ProcessStream:
        """Detached, so that it is the command itself that the monitor has, and ends with the stream."""
        request: dict[str, Any] = {"stdin": has_stdin, "tty": has_tty, "pid_file": str(scratch / "pid")}
        words = ["exec", "--detach", "--pid-file", request["pid_file"], "--process", str(scratch / "process.json")]
        if has_tty:
            request["console"] = str(self._folder / f"tty-{scratch.name}")
            words += ["--tty", "--console-socket", request["console"]]
        argv = self._binary.argv(*words, id, log=scratch / "log")
        try:
            return await self._monitor.exec(scratch.name, argv, **request)
        except MonitorError as fault:
            raise RuntimeFailure("ExecError", logged_fault(scratch / "log") or fault.message) from None

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        import socket

        found = self._pods.get(pod.metadata.uid)
        if found is None or not found.sandbox.is_ready:
            raise RuntimeFailure("NotFound", "the pod has no sandbox")

        def connected() -> socket.socket:
            return socket.create_connection(("localhost", port), timeout=10)

        try:
            if "network" not in found.spaces:
                return await asyncio.open_connection("localhost", port)
            link = await asyncio.to_thread(kernel.in_network, Path(found.spaces["network"]), connected)
        except OSError as fault:
            told = fault.strerror or str(fault)
            raise RuntimeFailure(
                "PortForward", f"failed to connect to localhost:{port} inside the pod: {told}"
            ) from None
        link.setblocking(False)
        return await asyncio.open_connection(sock=link)

    # -- ends --------------------------------------------------------------------------------------------------------

    async def _let_go(self, pod: PodState, record: ContainerRecord) -> None:
        with contextlib.suppress(RuntimeFailure):
            await self._binary.call("delete", "--force", record.id)
        folder = self._records.container(pod.sandbox.uid, record.id)
        await asyncio.to_thread(rootfs.unmount_all, folder)
        await asyncio.to_thread(cgroups.remove, record.cgroup)
        self._cpu.pop(record.id, None)

    def _was_out_of_memory(self, record: ContainerRecord) -> bool:
        return record.memory_bytes > 0 and cgroups.killed(record.cgroup) > 0

    async def _find_spaces(self, pod: PodState, running: dict[str, dict[str, Any]]) -> None:
        record = pod.sandbox
        pod.spaces = _mounted_in(self._records.pod(record.uid) / "ns")
        if record.pause and (about := running.get(record.pause)) and about["code"] is None:
            pod.spaces["pid"] = f"/proc/{await _only_child(about['pid'])}/ns/pid"
        if record.is_ready and not record.host_network and "network" not in pod.spaces:
            record.is_ready = False  # the machine was restarted


def _mounted_in(folder: Path) -> dict[str, str]:
    names = os.listdir(folder) if folder.exists() else []
    return {name: str(folder / name) for name in names if os.path.ismount(folder / name)}


async def _only_child(pid: int) -> int:
    """The process inside of a namespace that was made by another outside of it."""
    for _ in range(500):
        with contextlib.suppress(OSError, ValueError, IndexError):
            return _children(pid)[0]
        await asyncio.sleep(0.002)
    raise RuntimeFailure("FailedCreatePodSandBox", "the pod's first process did not begin")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _usage(name: str, cores: float, used: cgroups.GroupUsage, size: int, inodes: int, log_bytes: int) -> Usage:
    return Usage(
        name=name,
        cpu_cores=max(cores, 0.0),
        memory_bytes=used.memory_bytes,
        cpu_s=used.cpu_s,
        memory_rss_bytes=used.rss_bytes,
        page_faults=used.page_faults,
        major_page_faults=used.major_page_faults,
        disk_bytes=size,
        log_bytes=log_bytes,
        inodes=inodes,
        processes=used.processes,
    )


def _info(image: Image) -> ImageInfo:
    run = image.config.run
    return ImageInfo(
        id=image.id,
        names=image.names,
        digests=image.digests,
        size=image.size,
        user=run.user,
        volumes=list(run.volumes or ()),
    )


def _with_allowed_score(config: ContainerConfig) -> ContainerConfig:
    score = oom_scores.allowed(config.resources.oom_score_adjust)
    if score == config.resources.oom_score_adjust:
        return config
    return replace(config, resources=replace(config.resources, oom_score_adjust=score))


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(value, enc_hook=str))


__all__ = ["OciRuntime"]
