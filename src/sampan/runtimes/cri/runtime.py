"""The runtime `cri` of one node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import Container, Pod
from sampan.machinery.clock import Clock
from sampan.runtimes import contract, labels
from sampan.runtimes.background import Background
from sampan.runtimes.config import ContainerConfig, Resources, SandboxConfig
from sampan.runtimes.contract import ImageInfo, PodReport, RuntimeFailure, Told, Usage
from sampan.runtimes.cpu_rates import CpuRates
from sampan.runtimes.cri import messages, seen
from sampan.runtimes.cri.client import TIMEOUT_S, CriClient, CriError
from sampan.runtimes.cri.images import CriImages
from sampan.runtimes.cri.streaming import AttachedStream, CriStream, connected
from sampan.runtimes.cri.view import CriView
from sampan.runtimes.images.credentials import Keyring
from sampan.runtimes.pod_table import PodTable, SeenContainer, SeenPod, SeenSandbox
from sampan.runtimes.sandbox_configs import SandboxConfigs
from sampan.runtimes.streams import ProcessStream

log = logging.getLogger(__name__)

_BEGIN_S = 10.0
_RELIST_S = 1.0
_UNKNOWN_CODE = 255
_LOOKS, _LOOK_AGAIN_S = 40, 0.025


class CriRuntime:
    """`async with` begins it. `endpoint` is the runtime's socket, `folder` the node's own; by it and the
    `node`'s name is known what is this node's among what others have in the same runtime."""

    def __init__(
        self,
        *,
        endpoint: str,
        folder: Path,
        node: str,
        clock: Clock,
        told: Told,
        relist_s: float = _RELIST_S,
    ) -> None:
        self._endpoint, self._node, self._clock, self._told = endpoint, labels.mark(node, folder), clock, told
        self._relist_s = relist_s
        self._configs = SandboxConfigs(folder / "sandboxes")
        self._rates = CpuRates()
        self._background = Background()
        self._stops: dict[str, asyncio.Task[None]] = {}
        self.name, self.version = "cri", ""
        self._table = PodTable(self.name)
        self._client: CriClient  # this and the rest are made when the runtime begins
        self._images: CriImages
        self._view: CriView

    async def __aenter__(self) -> CriRuntime:
        client = self._client = CriClient(self._endpoint)
        try:
            about = await client.runtime("Version", timeout_s=_BEGIN_S)
            self.name, self.version = about.runtime_name, about.runtime_version
            self._table, self._images = PodTable(self.name), CriImages(client=client)
            self._view = CriView(
                client=client, node=self._node, table=self._table, told=self._told, relist_s=self._relist_s
            )
            await self._view.relist()
        except BaseException:
            await client.close()
            raise
        self._background.begin(self._view.follow())
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
        cri = self._client.schema
        wanted = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(pod_sandbox_id=found.sandbox.id))
        listed = await self._client.runtime("ListContainerStats", wanted)
        running = {each.id: each for each in found.containers if each.state == contract.RUNNING}
        own = [each for each in listed.stats if each.attributes.id in running]
        return [*await self._sandbox_usage(found.sandbox), *(self._usage(each, running) for each in own)]

    async def _sandbox_usage(self, sandbox: SeenSandbox) -> list[Usage]:
        """Old runtimes cannot tell."""
        try:
            answer = await self._client.runtime("PodSandboxStats", self._sandbox_request(sandbox.id))
        except CriError:
            return []
        used_s = answer.stats.linux.cpu.usage_core_nano_seconds.value / 1e9
        return [seen.sandbox_usage(answer.stats, self._rates.rate(sandbox.id, used_s, self._clock.now()))]

    def _usage(self, stats: Any, running: Mapping[str, SeenContainer]) -> Usage:
        id, used_s = stats.attributes.id, stats.cpu.usage_core_nano_seconds.value / 1e9
        usage = seen.container_usage(stats, self._rates.rate(id, used_s, self._clock.now()))
        with contextlib.suppress(OSError):
            usage.log_bytes = Path(running[id].log_path).stat().st_size
        return usage

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        if cidrs:
            self._background.begin(self._tell_cidrs(",".join(cidrs)))

    async def _tell_cidrs(self, cidrs: str) -> None:
        cri = self._client.schema
        config = cri.RuntimeConfig(network_config=cri.NetworkConfig(pod_cidr=cidrs))
        try:
            await self._client.runtime("UpdateRuntimeConfig", cri.UpdateRuntimeConfigRequest(runtime_config=config))
        except CriError as fault:
            log.warning("the pods' addresses cannot be told to the runtime: %s", fault)

    async def run_sandbox(self, pod: Pod, config: SandboxConfig | None) -> None:
        assert config is not None
        reason, uid = "FailedCreatePodSandBox", config.uid
        old = self._table.get(uid) or SeenPod()
        for sandbox in old.sandboxes:
            await self._client.runtime("StopPodSandbox", self._sandbox_request(sandbox.id), reason=reason)
        attempt = max([config.attempt, *(each.attempt + 1 for each in old.sandboxes)])
        self._configs.keep(config)
        config.log_folder.mkdir(parents=True, exist_ok=True)
        message = messages.sandbox_message(config, attempt, self._node)
        request = self._client.schema.RunPodSandboxRequest(config=message, runtime_handler=config.handler)
        try:
            await self._client.runtime("RunPodSandbox", request, reason=reason, timeout_s=2 * TIMEOUT_S)
        finally:
            await self._view.refresh(uid)
        await self._drop_empty(uid)

    async def stop_sandbox(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        found = self._table.get(uid)
        if found is not None and any(each.is_ready for each in found.sandboxes):
            for sandbox in found.sandboxes:
                await self._client.runtime("StopPodSandbox", self._sandbox_request(sandbox.id))
            await self._view.refresh(uid)

    async def remove_pod(self, uid: str) -> None:
        await self._view.refresh(uid)
        found = self._table.get(uid)
        for sandbox in found.sandboxes if found is not None else ():
            await self._remove_sandbox(sandbox.id)
        for container in found.containers if found is not None else ():
            self._forget(container)
        self._configs.forget(uid)
        await self._view.refresh(uid)

    async def _remove_sandbox(self, id: str) -> None:
        """With its containers."""
        for name in ("StopPodSandbox", "RemovePodSandbox"):
            try:
                await self._client.runtime(name, self._sandbox_request(id))
            except CriError as fault:
                if not fault.is_missing:
                    raise
        self._rates.forget(id)

    async def _drop_empty(self, uid: str) -> None:
        """Sandboxes before the present one, of which no container is left that somebody might ask about."""
        found = self._table.get(uid) or SeenPod()
        used = {each.sandbox for each in found.containers}
        empty = [each.id for each in found.sandboxes[1:] if each.id not in used]
        for id in empty:
            await self._remove_sandbox(id)
        if empty:
            await self._view.refresh(uid)

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
            await self._client.runtime("StartContainer", self._container_request(id), reason="RunContainerError")
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

    async def _create(self, sandbox: str, config: ContainerConfig, around: SandboxConfig) -> str:
        config.log_path.parent.mkdir(parents=True, exist_ok=True)
        request = self._client.schema.CreateContainerRequest(
            pod_sandbox_id=sandbox,
            config=messages.container_message(config, around, self._node),
            sandbox_config=messages.sandbox_message(around, around.attempt, self._node),
        )
        answer = await self._client.runtime("CreateContainer", request, reason="CreateContainerError")
        return str(answer.container_id)

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
        request = self._client.schema.StopContainerRequest(container_id=id, timeout=math.ceil(max(grace_s, 0)))
        try:
            await self._client.runtime("StopContainer", request, timeout_s=grace_s + TIMEOUT_S)
        except CriError as fault:
            if not fault.is_missing:
                log.warning("container %s is not stopped: %s", id, fault)
        self._stops.pop(id, None)
        with contextlib.suppress(CriError):
            await self._view.refresh(uid)

    async def remove_container(self, pod: Pod, id: str) -> None:
        uid = pod.metadata.uid
        found = self._table.find(uid, id)
        if found is not None:
            await self._remove(found.id)
            self._forget(found)
            await self._view.refresh(uid)
            await self._drop_empty(uid)

    async def _remove(self, id: str) -> None:
        try:
            await self._client.runtime("RemoveContainer", self._container_request(id))
        except CriError as fault:
            if not fault.is_missing:
                raise

    def _forget(self, container: SeenContainer) -> None:
        self._rates.forget(container.id)
        if container.log_path:
            Path(container.log_path).unlink(missing_ok=True)

    async def update_resources(self, pod: Pod, name: str, resources: Resources) -> None:
        id = self._table.running(pod.metadata.uid, name).id
        request = self._client.schema.UpdateContainerResourcesRequest(
            container_id=id, linux=messages.new_limits(resources)
        )
        await self._client.runtime("UpdateContainerResources", request)

    # -- looking in --------------------------------------------------------------------------------------------------

    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, has_stdin: bool = False, has_tty: bool = False
    ) -> ProcessStream:
        request = self._client.schema.ExecRequest(
            container_id=self._table.running(pod.metadata.uid, container).id,
            cmd=command,
            tty=has_tty,
            stdin=has_stdin,
            stdout=True,
            stderr=not has_tty,
        )
        answer = await self._client.runtime("Exec", request)
        stream = CriStream(answer.url, has_stdin=has_stdin, has_tty=has_tty)
        await stream.begin(self._background.begin)
        return stream

    async def attach(self, pod: Pod, container: str) -> ProcessStream:
        id = self._table.running(pod.metadata.uid, container).id
        has_stdin, has_tty = _terminal(pod, container)
        request = self._client.schema.AttachRequest(
            container_id=id, stdin=has_stdin, tty=has_tty, stdout=True, stderr=not has_tty
        )
        answer = await self._client.runtime("Attach", request)

        async def ended() -> int:
            return await self._exit_code(id)

        stream = AttachedStream(answer.url, has_stdin=has_stdin, has_tty=has_tty, ended=ended)
        await stream.begin(self._background.begin)
        return stream

    async def _exit_code(self, id: str) -> int:
        """The output may end a moment before the runtime has noticed the container's end; or the container goes on."""
        for _ in range(_LOOKS):
            status = await self._view.status(id)
            if status is None or seen.state(status.state) == contract.EXITED:
                return int(status.exit_code) if status is not None else _UNKNOWN_CODE
            await asyncio.sleep(_LOOK_AGAIN_S)
        return 0

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sandbox = self._table.ready_sandbox(pod.metadata.uid)
        request = self._client.schema.PortForwardRequest(pod_sandbox_id=sandbox.id, port=[port])
        answer = await self._client.runtime("PortForward", request, reason="PortForward")
        return await connected(answer.url, port, self._background.begin)

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        return self._table.log_file(pod.metadata.uid, container, previous=previous)

    async def reopen_log(self, pod: Pod, container: str) -> None:
        id = self._table.running(pod.metadata.uid, container).id
        await self._client.runtime("ReopenContainerLog", self._container_request(id))

    # -- parts -------------------------------------------------------------------------------------------------------

    def _sandbox_request(self, id: str) -> Any:
        return self._client.schema.SandboxRequest(pod_sandbox_id=id)

    def _container_request(self, id: str) -> Any:
        return self._client.schema.ContainerRequest(container_id=id)


def _terminal(pod: Pod, name: str) -> tuple[bool, bool]:
    """Whether the container has input, and whether it has a terminal."""
    spec = pod.spec
    for each in (*(spec.containers or ()), *spec.initContainers, *spec.ephemeralContainers):
        if each.name == name:
            return bool(each.stdin), bool(each.tty)
    return False, False


__all__ = ["CriRuntime"]
