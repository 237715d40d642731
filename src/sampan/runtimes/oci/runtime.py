"""The runtime `oci` of one node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.types.core_v1 import Container, Pod
from sampan.machinery.clock import Clock
from sampan.runtimes import contract, kernel
from sampan.runtimes.config import ContainerConfig, Resources, SandboxConfig, Security
from sampan.runtimes.contract import ContainerReport, ImageInfo, PodReport, RuntimeFailure, Told, Usage
from sampan.runtimes.images import BadReference, Image, ImageStore, ImageUnknown, host, parse_reference
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.images.manifests import BadImage, RunConfig
from sampan.runtimes.images.pull import Puller, PullFailed
from sampan.runtimes.monitor.client import MonitorClient, MonitorError
from sampan.runtimes.network import PodNetwork
from sampan.runtimes.oci import cgroups, rootfs, sandbox
from sampan.runtimes.oci.binary import OciBinary, logged_fault
from sampan.runtimes.oci.records import ContainerRecord, Records, SandboxRecord
from sampan.runtimes.oci.resolver import resolv_conf
from sampan.runtimes.oci.spec import Around, container_spec, process, resources
from sampan.runtimes.oci.users import identity
from sampan.runtimes.streams import ProcessStream

log = logging.getLogger(__name__)

_LATEST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_RECONNECT_S = 1.0
_PAUSE = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483647 & wait $!; done"]
_KILLED = 137


class _Pod:
    """A pod in memory, as its records say it is on disk."""

    def __init__(self, record: SandboxRecord) -> None:
        self.sandbox = record
        self.config: SandboxConfig | None = None
        self.spaces: dict[str, str] = {}
        self.containers: dict[str, ContainerRecord] = {}
        """By id."""
        self.specs: dict[str, dict[str, Any]] = {}
        """The process of each container as it was begun, for commands that are run beside it."""
        self.kills: dict[str, asyncio.Task[None]] = {}

    def runs_of(self, name: str) -> list[ContainerRecord]:
        """Of a container, the latest first."""
        return sorted((each for each in self.containers.values() if each.name == name), key=lambda each: -each.attempt)


class OciRuntime:
    """`async with` begins it: what an earlier one left is taken over. `folder` is the node's own."""

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
        self._records = Records(folder)
        self._folder, self._images, self._network, self._clock, self._told = folder, images, network, clock, told
        self._binary = OciBinary(binary, folder / "state")
        self._monitor = MonitorClient(folder / "monitor")
        self._puller = puller
        self._pods: dict[str, _Pod] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._host: host.HostRoot | None = None
        self._cpu: dict[str, tuple[float, float]] = {}
        """When a container's use of the processor was last looked at, and how much it was."""

    @property
    def version(self) -> str:
        return self._binary.version

    async def __aenter__(self) -> OciRuntime:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        await self._binary.look()
        await self._monitor.ensure()
        self._load()
        await self._settle()
        self._begin(self._follow())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Containers go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def shut_down(self) -> None:
        """End everything, for a node that is given up."""
        for uid in list(self._pods):
            await self.remove_pod(uid)
        await self._monitor.quit(kill=True)

    # -- what there is -----------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        return  # what there is was found at the start

    def known_pods(self) -> Sequence[str]:
        return list(self._pods)

    def pod_report(self, pod: Pod) -> PodReport:
        found = self._pods.get(pod.metadata.uid)
        if found is None:
            return contract.NOTHING
        names = dict.fromkeys(each.name for each in found.containers.values() if each.name)
        runs = [found.runs_of(name) for name in names]
        record = found.sandbox
        return PodReport(
            is_sandbox_ready=record.is_ready,
            sandboxes=record.made,
            ips=record.ips if record.is_ready else (),
            containers=[self._report(each[0]) for each in runs],
            before=[self._report(each[1]) for each in runs if len(each) > 1],
        )

    def _report(self, record: ContainerRecord) -> ContainerReport:
        is_running = record.state == contract.RUNNING
        return ContainerReport(
            name=record.name,
            id=f"{self.name}://{record.id}",
            state=record.state,
            attempt=record.attempt,
            image=record.image,
            image_ref=record.image_ref,
            started_at=record.started_at,
            finished_at=record.finished_at,
            exit_code=record.exit_code,
            reason=record.reason,
            message=record.message,
            is_started=is_running,
            is_ready=is_running,
        )

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
        made = self._pods[uid] = _Pod(record)
        if old is not None:
            made.containers = old.containers
        self._records.save_sandbox(record)
        try:
            await self._make_sandbox(made, config)
        except OSError as fault:
            raise RuntimeFailure("FailedCreatePodSandBox", str(fault)) from None

    async def _make_sandbox(self, made: _Pod, config: SandboxConfig) -> None:
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

    async def _run_pause(self, made: _Pod) -> None:
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

    async def _end_sandbox(self, pod: _Pod) -> None:
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
        used = [each.image_digest for pod in self._pods.values() for each in pod.containers.values()]
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

    async def _create(self, pod: _Pod, record: ContainerRecord, config: ContainerConfig) -> None:
        assert pod.config is not None
        uid, folder = pod.sandbox.uid, self._records.container(pod.sandbox.uid, record.id)
        image, root = await asyncio.to_thread(self._mount, record, config, folder)
        record.stop_signal = config.stop_signal or image.stop_signal
        around = await asyncio.to_thread(self._around, pod, record, config, image, root)
        spec = container_spec(config, pod.config, image, around)
        pod.specs[record.id] = process(config, pod.config, image, around)
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

    async def _start(self, pod: _Pod, record: ContainerRecord) -> None:
        try:
            await self._binary.call("start", record.id)
        except RuntimeFailure as fault:
            await self._remove(pod, record)
            raise RuntimeFailure("RunContainerError", fault.message) from None
        if record.state == contract.CREATED:
            record.state, record.started_at = contract.RUNNING, self._clock.now()
        self._records.save_container(pod.sandbox.uid, record)

    def _mount(self, record: ContainerRecord, config: ContainerConfig, folder: Path) -> tuple[RunConfig, Path]:
        if host.is_host(config.image):
            if self._host is None:
                self._host = host.host_root(self._folder / "host")
            return host.CONFIG.run, rootfs.mount_host(self._host, folder)
        try:
            image = self._images.get(config.image_ref or config.image)
        except ImageUnknown:
            image = self._images.get(config.image)
        record.image_digest = image.digest
        return image.config.run, rootfs.mount_layers(self._images.lower_layers(image), folder)

    def _around(
        self, pod: _Pod, record: ContainerRecord, config: ContainerConfig, image: RunConfig, root: Path
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
            seccomp=local,
            has_unified_cgroups=cgroups.is_unified(),
        )

    def _namespaces(self, pod: _Pod, config: ContainerConfig) -> dict[str, str]:
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

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        found = self._pods.get(pod.metadata.uid)
        runs = found.runs_of(name) if found is not None else []
        if found is None or not runs or runs[0].state not in (contract.RUNNING, contract.CREATED):
            return
        record = runs[0]
        if (task := found.kills.pop(record.id, None)) is not None:
            task.cancel()
        elif grace_s > 0:
            await self._signal(record, _signal_number(record.stop_signal))
        found.kills[record.id] = self._begin(self._kill_after(found, record, grace_s))

    async def _kill_after(self, pod: _Pod, record: ContainerRecord, grace_s: float) -> None:
        if grace_s > 0:
            await self._clock.sleep(grace_s)
        if record.state in (contract.RUNNING, contract.CREATED):
            await self._signal(record, signal.SIGKILL)

    async def _signal(self, record: ContainerRecord, number: int) -> None:
        with contextlib.suppress(MonitorError):
            await self._monitor.kill(record.id, number)

    async def remove_container(self, pod: Pod, id: str) -> None:
        found = self._pods.get(pod.metadata.uid)
        record = found.containers.get(id.removeprefix(f"{self.name}://")) if found is not None else None
        if found is not None and record is not None:
            await self._remove(found, record)

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
        id = f"exec-{secrets.token_hex(8)}"
        path = folder / f"{id}.json"
        path.write_bytes(msgspec.json.encode(asked))
        words = ["exec", *(["--tty"] if has_tty else []), "--process", str(path), record.id]
        return await self._monitor.exec(id, self._binary.argv(*words), stdin=has_stdin, tty=has_tty)

    async def attach(self, pod: Pod, container: str) -> ProcessStream:
        _, record = self._running(pod, container)
        return await self._monitor.attach(record.id)

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

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        found = self._pods.get(pod.metadata.uid)
        runs = found.runs_of(container) if found is not None else []
        wanted = runs[1:2] if previous else runs[:1]
        return Path(wanted[0].log_path) if wanted else None

    async def reopen_log(self, pod: Pod, container: str) -> None:
        _, record = self._running(pod, container)
        await self._monitor.reopen_log(record.id)

    def _running(self, pod: Pod, name: str) -> tuple[_Pod, ContainerRecord]:
        found = self._pods.get(pod.metadata.uid)
        runs = found.runs_of(name) if found is not None else []
        if found is None or not runs or runs[0].state != contract.RUNNING:
            raise RuntimeFailure("NotFound", f'container "{name}" is not running')
        return found, runs[0]

    # -- ends --------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Take note of containers that end, for as long as the runtime runs."""
        while True:
            try:
                await self._monitor.follow(self._ended)
            except MonitorError as fault:
                log.warning("%s; containers are looked for", fault)
            await asyncio.sleep(_RECONNECT_S)
            await self._monitor.ensure()
            await self._settle()

    def _ended(self, about: dict[str, Any]) -> None:
        for pod in self._pods.values():
            record = pod.containers.get(about["id"])
            if record is not None and record.state in (contract.RUNNING, contract.CREATED):
                self._note_end(pod, record, int(about["code"]), float(about["finished_at"]))

    def _note_end(self, pod: _Pod, record: ContainerRecord, code: int, finished_at: float) -> None:
        record.state, record.exit_code = contract.EXITED, code
        record.finished_at = finished_at or self._clock.now()
        record.started_at = record.started_at or record.finished_at
        is_oom = code == _KILLED and record.memory_bytes > 0 and cgroups.killed(record.cgroup) > 0
        record.reason = contract.OOM_KILLED if is_oom else contract.ERROR if code else contract.COMPLETED
        self._records.save_container(pod.sandbox.uid, record)
        if (task := pod.kills.pop(record.id, None)) is not None:
            task.cancel()
        self._begin(self._clean_up(pod, record))
        self._told(pod.sandbox.uid)

    async def _clean_up(self, pod: _Pod, record: ContainerRecord) -> None:
        """What a container that has ended need not keep: mounts, its group. Its files stay until it is removed."""
        with contextlib.suppress(RuntimeFailure):
            await self._binary.call("delete", "--force", record.id)
        folder = self._records.container(pod.sandbox.uid, record.id)
        await asyncio.to_thread(rootfs.unmount_all, folder)
        await asyncio.to_thread(cgroups.remove, record.cgroup)
        with contextlib.suppress(MonitorError):
            await self._monitor.forget(record.id)

    async def _remove(self, pod: _Pod, record: ContainerRecord) -> None:
        if record.state in (contract.RUNNING, contract.CREATED) and record.pid:
            await self._kill_process(record.id)
        await self._clean_up(pod, record)
        self._records.remove(self._records.container(pod.sandbox.uid, record.id))
        pod.containers.pop(record.id, None)
        pod.specs.pop(record.id, None)
        self._cpu.pop(record.id, None)

    async def _end_containers(self, pod: _Pod) -> None:
        running = [each for each in pod.containers.values() if each.state in (contract.RUNNING, contract.CREATED)]
        for record in running:
            await self._kill_process(record.id)
            if record.state in (contract.RUNNING, contract.CREATED):
                self._note_end(pod, record, _KILLED, 0)

    async def _kill_process(self, id: str) -> None:
        """And wait until it is gone."""
        with contextlib.suppress(MonitorError):
            stream = await self._monitor.attach(id)
            await self._monitor.kill(id, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await stream.wait()
            await stream.close()
            await self._monitor.forget(id)

    # -- taking over -------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        for record in self._records.sandboxes():
            pod = self._pods[record.uid] = _Pod(record)
            folder = self._records.pod(record.uid)
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                pod.config = msgspec.json.decode(
                    (folder / "config.json").read_bytes(), type=SandboxConfig, dec_hook=_path
                )
            spaces = folder / "ns"
            names = os.listdir(spaces) if spaces.exists() else []
            pod.spaces = {name: str(spaces / name) for name in names if os.path.ismount(spaces / name)}
            pod.containers = {each.id: each for each in self._records.containers(record.uid)}

    async def _settle(self) -> None:
        """Bring the records up to what the monitor knows: what it does not know of has ended, nobody knows how."""
        running = {each["id"]: each for each in await self._monitor.list()}
        for pod in list(self._pods.values()):
            if pod.sandbox.pause and (about := running.get(pod.sandbox.pause)) and about["code"] is None:
                pod.spaces["pid"] = f"/proc/{await _only_child(about['pid'])}/ns/pid"
            for record in list(pod.containers.values()):
                if record.state not in (contract.RUNNING, contract.CREATED):
                    continue
                about = running.get(record.id)
                if about is None or not record.started_at:
                    self._note_end(pod, record, *_noted(self._records.container(pod.sandbox.uid, record.id)))
                elif about["code"] is not None:
                    self._note_end(pod, record, about["code"], about["finished_at"])
            if pod.sandbox.is_ready and not pod.sandbox.host_network and "network" not in pod.spaces:
                pod.sandbox.is_ready = False  # the machine was restarted

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _noted(folder: Path) -> tuple[int, float]:
    """How a container ended, as the monitor wrote it down; killed, if it did not."""
    try:
        value = msgspec.json.decode((folder / "exit").read_bytes(), type=dict[str, Any])
        return int(value["code"]), float(value["finished_at"])
    except (OSError, msgspec.MsgspecError, KeyError):
        return _KILLED, 0.0


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


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(value, enc_hook=str))


def _path(type: type, value: Any) -> Any:
    """Paths are written as text."""
    return Path(value)


def _signal_number(name: str) -> int:
    if not name:
        return signal.SIGTERM
    if name.isdecimal():
        return int(name)
    full = name if name.startswith("SIG") else f"SIG{name}"
    found = getattr(signal, full, None)
    return int(found) if found is not None else signal.SIGTERM


__all__ = ["OciRuntime"]
