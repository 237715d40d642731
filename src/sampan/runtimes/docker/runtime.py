"""The Docker runtime of one node."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import Clock
from sampan.machinery.telemetry.flight_recorder import step_part
from sampan.runtimes import kernel
from sampan.runtimes.config import ContainerConfig, ContainerResources, Mount, SandboxConfig, resolv_conf
from sampan.runtimes.contract import (
    ContainerUsage,
    PodCallback,
    ProcessStream,
    RuntimeFailure,
    RuntimeHandler,
    RuntimeStatus,
    UnknownHandler,
)
from sampan.runtimes.docker import messages
from sampan.runtimes.docker.client import TIMEOUT_S, DockerClient, DockerError
from sampan.runtimes.docker.images import DockerImages
from sampan.runtimes.docker.logs import LogCopies
from sampan.runtimes.docker.streaming import DockerCommands
from sampan.runtimes.docker.view import DockerUsage, DockerView
from sampan.runtimes.engine import EngineRuntime, cgroup_parent, stop_slice, version_of
from sampan.runtimes.images import pause
from sampan.runtimes.images.supply import ImageSupply
from sampan.runtimes.network import PodNetwork, bandwidth_of, connect_to_port
from sampan.runtimes.pod_table import ObservedContainer, ObservedPod, PodTable

_SANDBOX_FAILED = "FailedCreatePodSandBox"
_IMAGE_VOLUMES = (28, 0)
"""The version of the engine that introduced image volumes."""


class DockerRuntime(EngineRuntime):
    """Runs pods on the Docker Engine at `socket`. Pods are connected by `network`; if it is None, by the Docker network
    named `own_network`."""

    name, version = "docker", ""
    _view: DockerView
    _images: DockerImages

    def __init__(
        self,
        *,
        socket: str,
        directory: Path,
        node: str,
        clock: Clock,
        on_pod_change: PodCallback,
        supply: ImageSupply | None = None,
        network: PodNetwork | None = None,
        own_network: str = "bridge",
        pause_image: str = pause.NAME,
    ) -> None:
        super().__init__(directory=directory, node=node, clock=clock, on_pod_change=on_pod_change, supply=supply)
        self._socket, self._network, self._own_network = socket, network, own_network
        self._pause_image = pause_image
        self._table = PodTable(self.name)
        self._handlers: Sequence[str] = ()
        self._has_systemd_groups = False
        self._client: DockerClient  # this and the following attributes are set by _open()
        self._logs: LogCopies
        self._commands: DockerCommands
        self._usage: DockerUsage

    async def _open(self) -> None:
        client = self._client = DockerClient(self._socket)
        self._images = DockerImages(client=client, pause_image=self._pause_image, supply=self._supply)
        self._logs = LogCopies(client=client, background=self._background)
        self._commands = DockerCommands(client=client)
        self._usage = DockerUsage(client=client, rates=self._rates, clock=self._clock)
        self._view = DockerView(
            client=client,
            node=self._node,
            table=self._table,
            configs=self._configs,
            network=self._network,
            logs=self._logs,
            on_pod_change=self._on_pod_change,
        )
        info, began_at = await client.get("/info"), self._clock.now()
        self.version, self._handlers = info["ServerVersion"], sorted(info.get("Runtimes") or ())
        self._has_systemd_groups = info.get("CgroupDriver") == "systemd"
        self._has_image_volumes = version_of(self.version) >= _IMAGE_VOLUMES
        await self._view.relist()
        await self._free_addresses()
        self._background.start(self._view.follow(began_at))
        self._background.start(self._view.relist_periodically())

    async def _free_addresses(self) -> None:
        """Release the addresses of pods that were removed from the engine while no kubelet ran."""
        for uid in self._network.list_pod_uids() if self._network is not None else ():
            if self._network is not None and self._table.get(uid) is None:
                await self._network.detach(uid)

    async def _close(self) -> None:
        await self._client.close()

    # -- state -------------------------------------------------------------------------------------------------------

    async def status(self) -> RuntimeStatus:
        handlers = [RuntimeHandler(), *(RuntimeHandler(name=name) for name in self._handlers)]
        try:
            await self._client.get("/_ping")
        except DockerError as error:
            condition = f"RuntimeReady=false reason:DockerDaemonNotReady message:docker: {error.message}"
            errors = [f"container runtime not ready: {condition}"]
            return RuntimeStatus(errors=errors, handlers=handlers, heeds_groups_policy=False)
        return RuntimeStatus(handlers=handlers, heeds_groups_policy=False)

    async def stats(self, pod: Pod) -> Sequence[ContainerUsage]:
        return await self._usage.measure_pod(self._table.get(pod.metadata.uid))

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        if self._network is not None:
            self._network.use_pod_cidrs(cidrs)

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        assert config is not None
        if config.handler and config.handler not in self._handlers:
            raise UnknownHandler(config.handler)
        uid = config.uid
        old = self._table.get(uid) or ObservedPod()
        await self._end_sandboxes(uid, old)
        config = replace(
            config,
            attempt=max([config.attempt, *(sandbox.attempt + 1 for sandbox in old.sandboxes)]),
            cgroup_parent=cgroup_parent(config, is_systemd=self._has_systemd_groups),
        )
        await self._images.ensure_pause_image()
        try:
            await self._make_sandbox(config)
        except DockerError as error:
            raise RuntimeFailure(_SANDBOX_FAILED, error.message) from None
        finally:
            await self._view.refresh(uid)
        for sandbox in old.sandboxes:
            await self._remove(sandbox.id)
        await self._view.refresh(uid)

    async def _make_sandbox(self, config: SandboxConfig) -> None:
        network = self._own_network if self._network is None else "none"
        body = messages.sandbox_body(config, config.attempt, self._node, image=self._pause_image, network=network)
        name = messages.sandbox_name(config, config.attempt)
        # an interrupted attempt may have left a container of this name
        await self._client.delete(f"/containers/{name}", {"force": "true", "v": "true"})
        id = (await self._client.post("/containers/create", {"name": name}, body))["Id"]
        try:
            await self._client.post(f"/containers/{id}/start")
            if self._network is not None and config.namespaces.network != "node":
                space = _network_namespace_path(await self._client.get(f"/containers/{id}/json"))
                with step_part("connect the network"):
                    await self._network.attach(config.uid, space, config.ports, bandwidth_of(config.annotations))
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
        return self._directory / "resolvers" / uid

    async def _end_sandboxes(self, uid: str, pod: ObservedPod) -> None:
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
        seen_pod = self._table.get(uid)
        if seen_pod is not None:
            await self._end_sandboxes(uid, seen_pod)
            await self._view.refresh(uid)

    async def remove_pod(self, uid: str) -> None:
        await self._view.refresh(uid)
        pod = self._table.get(uid) or ObservedPod()
        await self._end_sandboxes(uid, pod)
        for container in pod.containers:
            await self._forget(container)
        for sandbox in pod.sandboxes:
            await self._remove(sandbox.id)
        self._configs.forget(uid)
        self._resolver(uid).unlink(missing_ok=True)
        await asyncio.to_thread(self._image_volumes.remove, uid)
        if self._has_systemd_groups:
            await stop_slice(uid)
        await self._view.refresh(uid)

    async def _remove(self, id: str) -> None:
        await self._client.delete(f"/containers/{id}", {"force": "true", "v": "true"})

    async def _kill(self, id: str) -> None:
        """Kill a container and wait for its exit. A container that has exited or is gone is not an error."""
        try:
            await self._client.post(f"/containers/{id}/kill", {"signal": "KILL"})
            await self._client.post(f"/containers/{id}/wait")
        except DockerError as error:
            if error.code not in (404, 409):
                raise

    # -- containers --------------------------------------------------------------------------------------------------

    async def _create(self, sandbox: str, config: ContainerConfig, sandbox_config: SandboxConfig) -> str:
        reason, profile = "CreateContainerError", config.security.seccomp
        local = _profile(profile.local) if profile.type == "Localhost" else None
        score = kernel.clamp_oom_score(config.resources.oom_score_adjust)
        config = replace(config, resources=replace(config.resources, oom_score_adjust=score))
        files = (
            [Mount(source=self._resolver(sandbox_config.uid), target="/etc/resolv.conf", is_read_only=True)]
            if sandbox_config.dns is not None
            else []
        )
        body = messages.container_body(config, sandbox_config, self._node, pause=sandbox, files=files, seccomp=local)
        name = messages.container_name(config, sandbox_config)
        response = await self._client.post("/containers/create", {"name": name}, body, reason=reason)
        return str(response["Id"])

    async def _start(self, id: str) -> None:
        await self._client.post(f"/containers/{id}/start", reason="RunContainerError")

    async def _stop_and_wait(self, id: str, grace_s: float) -> None:
        if grace_s <= 0:
            return await self._kill(id)
        query = {"t": math.ceil(grace_s)}
        try:
            await self._client.post(f"/containers/{id}/stop", query, timeout_s=grace_s + TIMEOUT_S)
        except DockerError as error:
            if not error.is_missing:
                raise

    async def _forget(self, container: ObservedContainer) -> None:
        await self._remove(container.id)
        await self._logs.forget(container.id)
        self._forget_files(container)

    async def update_resources(self, pod: Pod, name: str, resources: ContainerResources) -> None:
        id = self._find_running_container_id(pod, name)
        await self._client.post(f"/containers/{id}/update", body=messages.build_limits_update(resources))

    # -- exec, attach, port forwarding, logs -------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        id = self._find_running_container_id(pod, container)
        return await self._commands.exec(id, command, has_stdin=has_stdin, has_tty=has_tty)

    async def attach(self, pod: Pod, container: str, *, has_stdin: bool = False) -> ProcessStream:
        return await self._commands.attach(self._find_running_container_id(pod, container), has_stdin=has_stdin)

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        uid = pod.metadata.uid
        sandbox = self._table.ready_sandbox(uid)
        is_nodes = self._configs.get(uid).namespaces.network == "node"
        return await connect_to_port(port, None if is_nodes else Path(f"/proc/{sandbox.pid}/ns/net"))

    async def reopen_log(self, pod: Pod, container: str) -> None:
        self._logs.reopen(self._find_running_container_id(pod, container))

    def _find_running_container_id(self, pod: Pod, name: str) -> str:
        return self._table.find_running_container(pod.metadata.uid, name).id


def _network_namespace_path(inspected: Any) -> Path:
    """Return the path of the pause container's network namespace. The engine's file is preferred: unlike /proc/PID it
    cannot refer to another process after the pause process has exited."""
    file = (inspected.get("NetworkSettings") or {}).get("SandboxKey") or ""
    return Path(file) if file and Path(file).exists() else Path(f"/proc/{inspected['State']['Pid']}/ns/net")


def _profile(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise RuntimeFailure("CreateContainerError", f"the seccomp profile cannot be read: {error}") from None
