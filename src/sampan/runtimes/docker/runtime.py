"""The runtime `docker` of one node."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import Container, Pod
from sampan.machinery.clock import Clock
from sampan.runtimes import contract, kernel, labels, oom_scores
from sampan.runtimes.background import Background
from sampan.runtimes.config import ContainerConfig, Mount, Resources, SandboxConfig
from sampan.runtimes.contract import ImageInfo, PodReport, RuntimeFailure, Told, Usage
from sampan.runtimes.cpu_rates import CpuRates
from sampan.runtimes.docker import messages, seen
from sampan.runtimes.docker.client import TIMEOUT_S, DockerClient, DockerError, Query
from sampan.runtimes.docker.images import DockerImages
from sampan.runtimes.docker.log_copies import LogCopies
from sampan.runtimes.docker.streaming import DockerStream
from sampan.runtimes.docker.view import DockerView
from sampan.runtimes.images import pause
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.network import PodNetwork
from sampan.runtimes.pod_table import PodTable, SeenContainer, SeenPod, SeenSandbox
from sampan.runtimes.resolver import resolv_conf
from sampan.runtimes.sandbox_configs import SandboxConfigs
from sampan.runtimes.streams import ProcessStream

log = logging.getLogger(__name__)

_DETACH_KEYS = "ctrl-^,ctrl-\\,ctrl-^,ctrl-\\"
"""The engine's own would take a letter from every shell."""


class DockerRuntime:
    """`async with` begins it. `socket` is the engine's, `folder` the node's own; by it and the `node`'s name is
    known what is this node's among what others have in the same engine. With a `network` that connects pods;
    without, the engine's own of the name `own_network` does."""

    name = "docker"

    def __init__(
        self,
        *,
        socket: str,
        folder: Path,
        node: str,
        clock: Clock,
        told: Told,
        network: PodNetwork | None = None,
        own_network: str = "bridge",
        pause_image: str = pause.NAME,
    ) -> None:
        self._socket, self._folder, self._node, self._clock, self._told = (
            socket,
            folder,
            labels.mark(node, folder),
            clock,
            told,
        )
        self._network, self._own_network, self._pause_image = network, own_network, pause_image
        self._configs = SandboxConfigs(folder / "sandboxes")
        self._table = PodTable(self.name)
        self._rates = CpuRates()
        self._background = Background()
        self._stops: dict[str, asyncio.Task[None]] = {}
        self.version = ""
        self._client: DockerClient  # this and the rest are made when the runtime begins
        self._images: DockerImages
        self._logs: LogCopies
        self._view: DockerView

    async def __aenter__(self) -> DockerRuntime:
        client = self._client = DockerClient(self._socket)
        self._images = DockerImages(client=client, pause_image=self._pause_image)
        self._logs = LogCopies(client=client, background=self._background)
        self._view = DockerView(
            client=client,
            node=self._node,
            table=self._table,
            configs=self._configs,
            network=self._network,
            logs=self._logs,
            told=self._told,
        )
        try:
            self.version, began_at = (await client.get("/version"))["Version"], self._clock.now()
            await self._view.relist()
        except BaseException:
            await self.__aexit__()
            raise
        self._background.begin(self._view.follow(began_at))
        self._background.begin(self._view.look_often())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Containers go on."""
        await self._background.end()
        await self._client.close()

    async def shut_down(self) -> None:
        """End everything, for a node that is given up."""
        for uid in self._table.uids():
            await self.remove_pod(uid)

    # -- what there is -----------------------------------------------------------------------------------------------

    def adopt(self, pod: Pod) -> None:
        return  # what there is was found at the start

    def known_pods(self) -> Sequence[str]:
        return self._table.uids()

    def pod_report(self, pod: Pod) -> PodReport:
        return self._table.report(pod)

    async def stats(self, pod: Pod) -> Sequence[Usage]:
        found = self._table.get(pod.metadata.uid)
        if found is None or found.sandbox is None or not found.sandbox.is_ready:
            return []
        running = [each for each in found.containers if each.state == contract.RUNNING]
        looks = await asyncio.gather(*(self._usage(container) for container in running))
        used = [each for each in looks if each is not None]
        return [self._sandbox_usage(found.sandbox, used), *used]

    async def _usage(self, container: SeenContainer) -> Usage | None:
        query = {"stream": "false", "one-shot": "true"}
        try:
            stats = await self._client.get(f"/containers/{container.id}/stats", query)
        except DockerError as fault:
            if fault.is_missing:
                return None
            raise
        cores = self._rates.rate(container.id, seen.cpu_s(stats), self._clock.now())
        usage = seen.usage(container.name, stats, cores)
        usage.log_bytes = _size(container.log_path)
        return usage

    def _sandbox_usage(self, sandbox: SeenSandbox, parts: Sequence[Usage]) -> Usage:
        """The pause container itself uses nothing that counts."""
        whole = Usage(
            name="",
            cpu_cores=sum(each.cpu_cores for each in parts),
            memory_bytes=sum(each.memory_bytes for each in parts),
            cpu_s=sum(each.cpu_s or 0 for each in parts),
            memory_rss_bytes=sum(each.memory_rss_bytes or 0 for each in parts),
            processes=sum(each.processes or 0 for each in parts) + 1,
        )
        with contextlib.suppress(OSError):
            counts = seen.network_bytes(Path(f"/proc/{sandbox.pid}/net/dev").read_text())
            whole.received_bytes, whole.sent_bytes = counts or (None, None)
        return whole

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        if self._network is not None:
            self._network.use_pod_cidrs(cidrs)

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        assert config is not None
        uid = config.uid
        old = self._table.get(uid) or SeenPod()
        await self._end_sandboxes(uid, old)
        attempt = max([config.attempt, *(each.attempt + 1 for each in old.sandboxes)])
        await self._images.have_pause()
        try:
            await self._make_sandbox(dataclasses.replace(config, attempt=attempt))
        except DockerError as fault:
            raise RuntimeFailure("FailedCreatePodSandBox", fault.message) from None
        finally:
            await self._view.refresh(uid)
        for each in old.sandboxes:
            await self._remove(each.id)
        await self._view.refresh(uid)

    async def _make_sandbox(self, config: SandboxConfig) -> None:
        network = self._own_network if self._network is None else "none"
        body = messages.sandbox_body(config, config.attempt, self._node, image=self._pause_image, network=network)
        name = messages.sandbox_name(config, config.attempt)
        await self._client.delete(f"/containers/{name}", {"force": "true", "v": "true"})  # one that was never whole
        id = (await self._client.post("/containers/create", {"name": name}, body))["Id"]
        try:
            await self._client.post(f"/containers/{id}/start")
            if self._network is not None and config.namespaces.network != "node":
                pid = (await self._client.get(f"/containers/{id}/json"))["State"]["Pid"]
                await self._network.attach(config.uid, Path(f"/proc/{pid}/ns/net"), config.ports)
        except BaseException:
            await self._remove(id)
            raise
        self._write_files(config)
        self._configs.keep(config)

    def _write_files(self, config: SandboxConfig) -> None:
        if config.dns is not None:
            path = self._resolver(config.uid)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(resolv_conf(config.dns))

    def _resolver(self, uid: str) -> Path:
        return self._folder / "resolvers" / uid

    async def _end_sandboxes(self, uid: str, pod: SeenPod) -> None:
        for container in pod.containers:
            if not container.is_over:
                await self._kill(container.id)
        if self._network is not None and pod.sandboxes:
            await self._network.detach(uid)
        for sandbox in pod.sandboxes:
            if sandbox.pid:
                await self._kill(sandbox.id)

    async def stop_sandbox(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        found = self._table.get(uid)
        if found is not None:
            await self._end_sandboxes(uid, found)
            await self._view.refresh(uid)

    async def remove_pod(self, uid: str) -> None:
        await self._view.refresh(uid)
        found = self._table.get(uid) or SeenPod()
        await self._end_sandboxes(uid, found)
        for container in found.containers:
            await self._forget(container)
        for sandbox in found.sandboxes:
            await self._remove(sandbox.id)
        self._configs.forget(uid)
        self._resolver(uid).unlink(missing_ok=True)
        await self._view.refresh(uid)

    async def _remove(self, id: str) -> None:
        await self._client.delete(f"/containers/{id}", {"force": "true", "v": "true"})

    async def _kill(self, id: str) -> None:
        """And wait until it is gone; one that has ended cannot be killed any more."""
        try:
            await self._client.post(f"/containers/{id}/kill", {"signal": "KILL"})
            await self._client.post(f"/containers/{id}/wait")
        except DockerError as fault:
            if fault.code not in (404, 409):
                raise

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        return await self._images.get(name)

    async def images(self) -> Sequence[ImageInfo]:
        return await self._images.list()

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> str:
        return await self._images.pull(container.image, keyring)

    async def remove_image(self, name: str) -> None:
        await self._images.remove(name)

    # -- containers --------------------------------------------------------------------------------------------------

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, config: ContainerConfig | None
    ) -> str:
        assert config is not None
        uid = pod.metadata.uid
        sandbox = self._table.ready_sandbox(uid, "CreateContainerError")
        await self._clear_way(uid, config.name, attempt)
        id = await self._create(sandbox.id, config, self._configs.get(uid))
        try:
            await self._client.post(f"/containers/{id}/start", reason="RunContainerError")
        except RuntimeFailure:
            await self._remove(id)
            raise
        finally:
            await self._view.refresh(uid)
        return f"{self.name}://{id}"

    async def _clear_way(self, uid: str, name: str, attempt: int) -> None:
        """A container that was made, and not started before the kubelet ended, has the name that is wanted."""
        found = self._table.get(uid) or SeenPod()
        for each in found.runs_of(name):
            if each.attempt == attempt and each.state == contract.CREATED:
                await self._remove(each.id)

    async def _create(self, pause_id: str, config: ContainerConfig, around: SandboxConfig) -> str:
        reason, profile = "CreateContainerError", config.security.seccomp
        local = _profile(profile.local) if profile.type == "Localhost" else None
        score = oom_scores.allowed(config.resources.oom_score_adjust)
        config = dataclasses.replace(config, resources=dataclasses.replace(config.resources, oom_score_adjust=score))
        files = [Mount(source=self._resolver(around.uid), target="/etc/resolv.conf")] if around.dns is not None else []
        body = messages.container_body(config, around, self._node, pause=pause_id, files=files, seccomp=local)
        name = messages.container_name(config, around)
        answer = await self._client.post("/containers/create", {"name": name}, body, reason=reason)
        return str(answer["Id"])

    async def stop_container(self, pod: Pod, name: str, grace_s: float) -> None:
        found = self._table.get(pod.metadata.uid)
        runs = found.runs_of(name) if found is not None else []
        if not runs or runs[0].is_over:
            return
        id = runs[0].id
        if (task := self._stops.pop(id, None)) is not None:
            task.cancel()
        self._stops[id] = self._background.begin(self._stop(pod.metadata.uid, id, grace_s))

    async def _stop(self, uid: str, id: str, grace_s: float) -> None:
        try:
            if grace_s <= 0:
                await self._kill(id)
            else:
                query = {"t": math.ceil(grace_s)}
                await self._client.post(f"/containers/{id}/stop", query, timeout_s=grace_s + TIMEOUT_S)
        except DockerError as fault:
            if not fault.is_missing:
                log.warning("container %s is not stopped: %s", id, fault)
        self._stops.pop(id, None)
        with contextlib.suppress(DockerError):
            await self._view.refresh(uid)

    async def remove_container(self, pod: Pod, id: str) -> None:
        uid = pod.metadata.uid
        found = self._table.find(uid, id)
        if found is not None:
            await self._forget(found)
            await self._view.refresh(uid)

    async def _forget(self, container: SeenContainer) -> None:
        await self._remove(container.id)
        await self._logs.forget(container.id)
        self._rates.forget(container.id)
        _unlink(container.log_path)

    async def update_resources(self, pod: Pod, name: str, resources: Resources) -> None:
        id = self._table.running(pod.metadata.uid, name).id
        await self._client.post(f"/containers/{id}/update", body=messages.new_limits(resources))

    # -- looking in --------------------------------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        target = self._table.running(pod.metadata.uid, container).id
        body: dict[str, Any] = {"AttachStdin": has_stdin, "AttachStdout": True, "AttachStderr": True, "Tty": has_tty}
        body["DetachKeys"] = _DETACH_KEYS
        answer = await self._client.post(f"/containers/{target}/exec", body={**body, "Cmd": list(command)})
        place = f"/exec/{answer['Id']}"
        streams = await self._client.take_over(f"{place}/start", body={"Detach": False, "Tty": has_tty})

        async def resize(width: int, height: int) -> None:
            with contextlib.suppress(DockerError):
                await self._client.post(f"{place}/resize", {"w": width, "h": height})

        async def ended() -> int:
            return await self._exec_code(place)

        async def given_up() -> None:
            await self._kill_exec(place)

        return DockerStream(
            streams, has_stdin=has_stdin, has_tty=has_tty, resize=resize, ended=ended, given_up=given_up
        )

    async def _exec_code(self, place: str) -> int:
        """The output may end a moment before the engine has noticed the process's end."""
        for _ in range(500):
            about = await self._client.get(f"{place}/json")
            if not about["Running"]:
                return int(about["ExitCode"] or 0)
            await asyncio.sleep(0.01)
        raise RuntimeFailure("ExecError", "the command goes on without output")

    async def _kill_exec(self, place: str) -> None:
        """The engine has no call for it: the process is killed as one of this machine. Its number may be known only a
        moment after it has begun to speak."""
        with contextlib.suppress(DockerError, ProcessLookupError, PermissionError):
            for _ in range(200):
                about = await self._client.get(f"{place}/json")
                if about["Running"] and about["Pid"]:
                    os.kill(about["Pid"], signal.SIGKILL)
                    return
                if about["ExitCode"] is not None:
                    return
                await asyncio.sleep(0.01)

    async def attach(self, pod: Pod, container: str) -> ProcessStream:
        id = self._table.running(pod.metadata.uid, container).id
        about = (await self._client.get(f"/containers/{id}/json"))["Config"]
        has_stdin, has_tty = bool(about["OpenStdin"]), bool(about["Tty"])
        query: Query = {"stream": 1, "stdin": int(has_stdin), "stdout": 1, "stderr": 1, "detachKeys": _DETACH_KEYS}
        streams = await self._client.take_over(f"/containers/{id}/attach", query)

        async def resize(width: int, height: int) -> None:
            with contextlib.suppress(DockerError):
                await self._client.post(f"/containers/{id}/resize", {"w": width, "h": height})

        async def ended() -> int:
            return int((await self._client.post(f"/containers/{id}/wait", timeout_s=10))["StatusCode"])

        return DockerStream(streams, has_stdin=has_stdin, has_tty=has_tty, resize=resize, ended=ended)

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        uid = pod.metadata.uid
        sandbox = self._table.ready_sandbox(uid)

        def connected() -> socket.socket:
            return socket.create_connection(("localhost", port), timeout=10)

        try:
            if self._configs.get(uid).namespaces.network == "node":
                return await asyncio.open_connection("localhost", port)
            space = Path(f"/proc/{sandbox.pid}/ns/net")
            link = await asyncio.to_thread(kernel.in_network, space, connected)
        except OSError as fault:
            told = fault.strerror or str(fault)
            raise RuntimeFailure(
                "PortForward", f"failed to connect to localhost:{port} inside the pod: {told}"
            ) from None
        link.setblocking(False)
        return await asyncio.open_connection(sock=link)

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        return self._table.log_file(pod.metadata.uid, container, previous=previous)

    async def reopen_log(self, pod: Pod, container: str) -> None:
        id = self._table.running(pod.metadata.uid, container).id
        self._logs.reopen(id)


def _profile(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as fault:
        raise RuntimeFailure("CreateContainerError", f"the seccomp profile cannot be read: {fault}") from None


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:
        return None


def _unlink(path: str) -> None:
    if path:
        Path(path).unlink(missing_ok=True)


__all__ = ["DockerRuntime"]
