"""The CRI runtime of one node."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import Clock
from sampan.runtimes.config import ContainerConfig, ContainerResources, SandboxConfig
from sampan.runtimes.contract import ContainerUsage, PodCallback, ProcessStream, RuntimeFailure, RuntimeStatus
from sampan.runtimes.cri import messages, runtime_status
from sampan.runtimes.cri.client import TIMEOUT_S, CriClient, CriError
from sampan.runtimes.cri.containerd_images import ContainerdImages
from sampan.runtimes.cri.images import CriImages
from sampan.runtimes.cri.runtime_status import PodCidrUpdater
from sampan.runtimes.cri.streaming import CriCommands, get_stdin_and_tty
from sampan.runtimes.cri.view import CriUsage, CriView
from sampan.runtimes.engine import EngineRuntime, cgroup_parent, stop_slice, version_of
from sampan.runtimes.images.supply import ImageSupply
from sampan.runtimes.network import EngineNetwork, NoIsolation, PodIsolation
from sampan.runtimes.pod_table import ObservedContainer, ObservedPod, PodTable

log = logging.getLogger(__name__)

_BEGIN_S = 10.0
_RELIST_S = 1.0
_CONTAINERD = "containerd"
_IMAGE_VOLUMES = (2, 1)
"""The version of containerd that introduced image volumes."""
_SANDBOX_FAILED = "FailedCreatePodSandBox"
_NO_PAUSE = re.compile(r'failed to get sandbox image "([^"]+)"')


class CriRuntime(EngineRuntime):
    """Runs pods on the runtime at `endpoint`, a socket. With a `network` Sampan configures how the runtime connects
    pods; otherwise its existing configuration is used. The runtime connects a sandbox when it creates it; `isolation`
    puts network policies into effect before the first container of the sandbox starts."""

    _view: CriView
    _images: CriImages

    def __init__(
        self,
        *,
        endpoint: str,
        directory: Path,
        node: str,
        clock: Clock,
        on_pod_change: PodCallback,
        supply: ImageSupply | None = None,
        network: EngineNetwork | None = None,
        isolation: PodIsolation | None = None,
        relist_s: float = _RELIST_S,
    ) -> None:
        super().__init__(directory=directory, node=node, clock=clock, on_pod_change=on_pod_change, supply=supply)
        self._endpoint, self._network, self._relist_s = endpoint, network, relist_s
        self._isolation = isolation or NoIsolation()
        self.name, self.version = "cri", ""
        self._setting = runtime_status.CriSettings()
        self._client: CriClient  # this and the following attributes are set by _open()
        self._pod_cidrs: PodCidrUpdater
        self._commands: CriCommands
        self._usage: CriUsage

    async def _open(self) -> None:
        client = self._client = CriClient(self._endpoint)
        version = await client.runtime("Version", timeout_s=_BEGIN_S)
        self.name, self.version, self._table = (
            version.runtime_name,
            version.runtime_version,
            PodTable(version.runtime_name),
        )
        self._has_image_volumes = self.name != _CONTAINERD or version_of(self.version) >= _IMAGE_VOLUMES
        self._setting = await runtime_status.read_settings(client)
        images = ContainerdImages(channel=client.channel, clock=self._clock, snapshotter=self._setting.snapshotter)
        self._images = CriImages(
            client=client, supply=self._supply, containerd=images if self.name == _CONTAINERD else None
        )
        self._pod_cidrs = PodCidrUpdater(client=client, network=self._network)
        self._usage = CriUsage(client=client, rates=self._rates, clock=self._clock)
        self._view = CriView(
            client=client,
            node=self._node,
            table=self._table,
            on_pod_change=self._on_pod_change,
            relist_s=self._relist_s,
        )
        self._commands = CriCommands(client=client, background=self._background)
        await self._view.relist()
        for uid in self._table.uids():
            if addresses := self._addresses(uid):
                self._isolation.adopt(uid, addresses)
        self._background.start(self._view.follow())

    async def _close(self) -> None:
        await self._client.close()

    async def shut_down(self) -> None:
        await super().shut_down()
        await self._images.remove_imported()

    # -- state -------------------------------------------------------------------------------------------------------

    async def status(self) -> RuntimeStatus:
        network_error = ""
        try:
            await self._pod_cidrs.ensure()
        except RuntimeFailure as failure:
            network_error = failure.message
        try:
            state = runtime_status.status(await self._client.runtime("Status"))
        except CriError as failure:
            return RuntimeStatus(errors=[f"container runtime is down: {failure.message}"])
        return replace(state, errors=[*state.errors, network_error]) if network_error else state

    async def stats(self, pod: Pod) -> Sequence[ContainerUsage]:
        return await self._usage.measure_pod(self._table.get(pod.metadata.uid))

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        self._pod_cidrs.use(cidrs)

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        assert config is not None
        uid = config.uid
        old = self._table.get(uid) or ObservedPod()
        for sandbox in old.sandboxes:
            await self._client.runtime("StopPodSandbox", self._sandbox_request(sandbox.id), reason=_SANDBOX_FAILED)
        if config.namespaces.network != "node":
            await self._pod_cidrs.ensure()
        config = replace(
            config,
            attempt=max([config.attempt, *(previous.attempt + 1 for previous in old.sandboxes)]),
            cgroup_parent=cgroup_parent(config, is_systemd=self._setting.has_systemd_cgroups),
        )
        self._configs.keep(config)
        config.log_directory.mkdir(parents=True, exist_ok=True)
        try:
            await self._make_sandbox(config)
        finally:
            await self._view.refresh(uid)
        await self._isolate(uid)
        await self._remove_empty_sandboxes(uid)

    async def _isolate(self, uid: str) -> None:
        """Hold a pod to its addresses, and put its network policies into effect. If that fails, stop the sandbox, so
        that no container is started in it."""
        try:
            if addresses := self._addresses(uid):
                if self._network is not None:
                    await self._network.hold()
                await self._isolation.isolate(uid, addresses)
        except BaseException:
            await self._stop_sandboxes(uid)
            raise

    def _addresses(self, uid: str) -> Sequence[str]:
        """Return the addresses of a pod. A pod that uses the network of the node has none of its own."""
        pod = self._table.get(uid)
        return pod.sandbox.ips if pod is not None and pod.sandbox is not None and pod.sandbox.is_ready else ()

    async def _make_sandbox(self, config: SandboxConfig) -> None:
        message = messages.sandbox_message(config, config.attempt, self._node)
        request = self._client.schema.RunPodSandboxRequest(config=message, runtime_handler=config.handler)
        try:
            await self._client.runtime("RunPodSandbox", request, reason=_SANDBOX_FAILED, timeout_s=2 * TIMEOUT_S)
        except CriError as error:
            lacking = _NO_PAUSE.search(error.details)
            if lacking is None or not await self._images.import_pause(lacking[1]):
                raise
            log.warning("pulling pause image %s failed; using the built-in pause image", lacking[1])
            await self._client.runtime("RunPodSandbox", request, reason=_SANDBOX_FAILED, timeout_s=2 * TIMEOUT_S)

    async def stop_sandbox(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        seen_pod = self._table.get(uid)
        if seen_pod is not None and any(candidate.is_ready for candidate in seen_pod.sandboxes):
            await self._stop_sandboxes(uid)

    async def _stop_sandboxes(self, uid: str) -> None:
        for sandbox in (self._table.get(uid) or ObservedPod()).sandboxes:
            await self._client.runtime("StopPodSandbox", self._sandbox_request(sandbox.id))
        await self._isolation.release(uid)
        await self._view.refresh(uid)

    async def remove_pod(self, uid: str) -> None:
        await self._view.refresh(uid)
        pod = self._table.get(uid) or ObservedPod()
        for sandbox in pod.sandboxes:
            await self._remove_sandbox(sandbox.id)
        await self._isolation.release(uid)
        for container in pod.containers:
            self._forget_files(container)
        self._configs.forget(uid)
        await asyncio.to_thread(self._image_volumes.remove, uid)
        if self._setting.has_systemd_cgroups:
            await stop_slice(uid)
        await self._view.refresh(uid)

    async def _remove_sandbox(self, id: str) -> None:
        """Remove a sandbox together with its containers."""
        for name in ("StopPodSandbox", "RemovePodSandbox"):
            try:
                await self._client.runtime(name, self._sandbox_request(id))
            except CriError as error:
                if not error.is_missing:
                    raise
        self._rates.forget(id)

    async def _remove_empty_sandboxes(self, uid: str) -> None:
        """Remove earlier sandboxes that have no containers left."""
        pod = self._table.get(uid) or ObservedPod()
        used = {item.sandbox for item in pod.containers}
        empty = [item.id for item in pod.sandboxes[1:] if item.id not in used]
        for id in empty:
            await self._remove_sandbox(id)
        if empty:
            await self._view.refresh(uid)

    # -- containers --------------------------------------------------------------------------------------------------

    async def _create(self, sandbox: str, config: ContainerConfig, sandbox_config: SandboxConfig) -> str:
        config.log_path.parent.mkdir(parents=True, exist_ok=True)
        request = self._client.schema.CreateContainerRequest(
            pod_sandbox_id=sandbox,
            config=messages.container_message(config, sandbox_config, self._node),
            sandbox_config=messages.sandbox_message(sandbox_config, sandbox_config.attempt, self._node),
        )
        response = await self._client.runtime("CreateContainer", request, reason="CreateContainerError")
        return str(response.container_id)

    async def _start(self, id: str) -> None:
        await self._client.runtime("StartContainer", self._container_request(id), reason="RunContainerError")

    async def _stop_and_wait(self, id: str, grace_s: float) -> None:
        request = self._client.schema.StopContainerRequest(container_id=id, timeout=math.ceil(max(grace_s, 0)))
        try:
            await self._client.runtime("StopContainer", request, timeout_s=grace_s + TIMEOUT_S)
        except CriError as error:
            if not error.is_missing:
                raise

    async def remove_container(self, pod: Pod, id: str) -> None:
        await super().remove_container(pod, id)
        await self._remove_empty_sandboxes(pod.metadata.uid)

    async def _remove(self, id: str) -> None:
        try:
            await self._client.runtime("RemoveContainer", self._container_request(id))
        except CriError as error:
            if not error.is_missing:
                raise

    async def update_resources(self, pod: Pod, name: str, resources: ContainerResources) -> None:
        request = self._client.schema.UpdateContainerResourcesRequest(
            container_id=self._find_running_container(pod, name).id, linux=messages.build_limits_update(resources)
        )
        await self._client.runtime("UpdateContainerResources", request)

    # -- exec, attach, port forwarding, logs -------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        id = self._find_running_container(pod, container).id
        return await self._commands.exec(id, command, has_stdin=has_stdin, has_tty=has_tty)

    async def attach(self, pod: Pod, container: str, *, has_stdin: bool = False) -> ProcessStream:
        keeps_stdin, has_tty = get_stdin_and_tty(pod, container)
        return await self._commands.attach(
            self._find_running_container(pod, container).id, has_stdin=has_stdin and keeps_stdin, has_tty=has_tty
        )

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._commands.connect(self._table.ready_sandbox(pod.metadata.uid).id, port)

    async def reopen_log(self, pod: Pod, container: str) -> None:
        await self._client.runtime(
            "ReopenContainerLog", self._container_request(self._find_running_container(pod, container).id)
        )

    # -- internals ---------------------------------------------------------------------------------------------------

    def _find_running_container(self, pod: Pod, name: str) -> ObservedContainer:
        return self._table.find_running_container(pod.metadata.uid, name)

    def _sandbox_request(self, id: str) -> Any:
        return self._client.schema.SandboxRequest(pod_sandbox_id=id)

    def _container_request(self, id: str) -> Any:
        return self._client.schema.ContainerRequest(container_id=id)
