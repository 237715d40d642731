"""The runtime `cri` of one node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import Container, Pod
from sampan.machinery.clock import Clock
from sampan.runtimes import contract, labels
from sampan.runtimes.config import ContainerConfig, Resources, SandboxConfig
from sampan.runtimes.contract import ImageInfo, PodReport, RuntimeFailure, Told, Usage
from sampan.runtimes.cpu_rates import CpuRates
from sampan.runtimes.cri import messages, seen
from sampan.runtimes.cri.client import TIMEOUT_S, CriClient, CriError
from sampan.runtimes.cri.streaming import AttachedStream, CriStream, connected
from sampan.runtimes.images.credentials import Credentials, Keyring
from sampan.runtimes.images.reference import BadReference, parse_reference
from sampan.runtimes.pod_table import PodTable, SeenContainer, SeenPod, SeenSandbox
from sampan.runtimes.sandbox_configs import SandboxConfigs
from sampan.runtimes.streams import ProcessStream

log = logging.getLogger(__name__)

_RELIST_S = 1.0
"""Between looks, where the runtime tells of no events."""
_CALM_RELIST_S = 60.0
"""Between looks, where it does."""
_PULL_REASONS = {
    "RegistryUnavailable": "RegistryUnavailable",
    "SignatureValidationFailed": "SignatureValidationFailed",
}
_UNKNOWN_CODE = 255
_LOOKS, _LOOK_AGAIN_S = 40, 0.025


class CriRuntime:
    """`async with` begins it. `endpoint` is the runtime's socket, `folder` the node's own; `node` marks what is this
    node's among what others have in the same runtime."""

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
        self._endpoint, self._node, self._clock, self._told = endpoint, node, clock, told
        self._relist_s = relist_s
        self._configs = SandboxConfigs(folder / "sandboxes")
        self._rates = CpuRates()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stops: dict[str, asyncio.Task[None]] = {}
        self.name, self.version = "cri", ""
        self._table = PodTable(self.name)
        self._client: CriClient = None  # type: ignore[assignment] # made when the runtime begins

    async def __aenter__(self) -> CriRuntime:
        self._client = CriClient(self._endpoint)
        try:
            about = await self._client.runtime("Version", timeout_s=10)
            self.name, self.version = about.runtime_name, about.runtime_version
            self._table = PodTable(self.name)
            await self._relist()
        except BaseException:
            await self._client.close()
            raise
        self._begin(self._follow())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Containers go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
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
            self._begin(self._tell_cidrs(",".join(cidrs)))

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
            await self._refresh(uid)
        await self._drop_empty(uid)

    async def stop_sandbox(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        found = self._table.get(uid)
        if found is not None and any(each.is_ready for each in found.sandboxes):
            for sandbox in found.sandboxes:
                await self._client.runtime("StopPodSandbox", self._sandbox_request(sandbox.id))
            await self._refresh(uid)

    async def remove_pod(self, uid: str) -> None:
        await self._refresh(uid)
        found = self._table.get(uid)
        for sandbox in found.sandboxes if found is not None else ():
            await self._remove_sandbox(sandbox.id)
        for container in found.containers if found is not None else ():
            self._forget(container)
        self._configs.forget(uid)
        await self._refresh(uid)

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
            await self._refresh(uid)

    # -- images ------------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> ImageInfo | None:
        cri = self._client.schema
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._client.images("ImageStatus", request, reason="ImageInspectError")
        return seen.image(answer.image) if answer.HasField("image") else None

    async def images(self) -> Sequence[ImageInfo]:
        return [seen.image(each) for each in (await self._client.images("ListImages")).images]

    async def pull_image(self, pod: Pod, container: Container, keyring: Keyring | None) -> str:
        name = container.image
        try:
            wanted = parse_reference(name)
        except BadReference as fault:
            raise RuntimeFailure("InvalidImageName", f"Failed to apply default image tag {name!r}: {fault}") from None
        known: list[Credentials | None] = [*(keyring.find(wanted) if keyring is not None else ()), None]
        for last, who in enumerate(known, start=1 - len(known)):
            try:
                return await self._pull(str(wanted), who)
            except CriError as fault:
                if last == 0:
                    raise _pull_failure(fault) from None
        raise AssertionError("there is always one try")

    async def _pull(self, name: str, who: Credentials | None) -> str:
        cri = self._client.schema
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name))
        if who is not None:
            request.auth.username, request.auth.password = who.username, who.password
            request.auth.identity_token, request.auth.registry_token = who.identity_token, who.registry_token
        answer = await self._client.images("PullImage", request, reason="ErrImagePull", timeout_s=None)
        return str(answer.image_ref)

    async def remove_image(self, name: str) -> None:
        cri = self._client.schema
        await self._client.images("RemoveImage", cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))

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
            await self._refresh(uid)
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
        self._stops[id] = self._begin(self._stop(pod.metadata.uid, id, grace_s))

    async def _stop(self, uid: str, id: str, grace_s: float) -> None:
        request = self._client.schema.StopContainerRequest(container_id=id, timeout=math.ceil(max(grace_s, 0)))
        try:
            await self._client.runtime("StopContainer", request, timeout_s=grace_s + TIMEOUT_S)
        except CriError as fault:
            if not fault.is_missing:
                log.warning("container %s is not stopped: %s", id, fault)
        self._stops.pop(id, None)
        if await self._refresh(uid):
            self._told(uid)

    async def remove_container(self, pod: Pod, id: str) -> None:
        uid = pod.metadata.uid
        found = self._table.find(uid, id)
        if found is not None:
            await self._remove(found.id)
            self._forget(found)
            await self._refresh(uid)
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
        await stream.begin(self._begin)
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
        await stream.begin(self._begin)
        return stream

    async def _exit_code(self, id: str) -> int:
        """The output may end a moment before the runtime has noticed the container's end; or the container goes on."""
        for _ in range(_LOOKS):
            status = await self._status(id)
            if status is None or seen.state(status.state) == contract.EXITED:
                return int(status.exit_code) if status is not None else _UNKNOWN_CODE
            await asyncio.sleep(_LOOK_AGAIN_S)
        return 0

    async def connect(self, pod: Pod, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sandbox = self._table.ready_sandbox(pod.metadata.uid)
        request = self._client.schema.PortForwardRequest(pod_sandbox_id=sandbox.id, port=[port])
        answer = await self._client.runtime("PortForward", request, reason="PortForward")
        return await connected(answer.url, port, self._begin)

    def log_file(self, pod: Pod, container: str, *, previous: bool = False) -> Path | None:
        return self._table.log_file(pod.metadata.uid, container, previous=previous)

    async def reopen_log(self, pod: Pod, container: str) -> None:
        id = self._table.running(pod.metadata.uid, container).id
        await self._client.runtime("ReopenContainerLog", self._container_request(id))

    # -- looking at what there is ------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Tell of what changes, for as long as the runtime runs."""
        relist_s = _CALM_RELIST_S
        while True:
            async with asyncio.TaskGroup() as group:
                looks = group.create_task(self._look_often(relist_s))
                try:
                    async for event in self._client.events():
                        await self._happened(event)
                except CriError as fault:
                    if fault.is_unknown:
                        relist_s = self._relist_s
                    else:
                        log.warning("no events from the runtime: %s", fault)
                looks.cancel()
            if relist_s == self._relist_s:
                await self._look_often(relist_s)
            await asyncio.sleep(self._relist_s)
            await self._look()

    async def _happened(self, event: Any) -> None:
        uid = event.pod_sandbox_status.metadata.uid
        if uid and self._table.get(uid) is not None:
            try:
                if await self._refresh(uid):
                    self._told(uid)
            except CriError as fault:
                log.warning("pod %s cannot be looked at: %s", uid, fault)

    async def _look_often(self, every_s: float) -> None:
        """At first soon: what happens before the first event is told of is not told."""
        await asyncio.sleep(self._relist_s)
        while True:
            await self._look()
            await asyncio.sleep(every_s)

    async def _look(self) -> None:
        try:
            for uid in await self._relist():
                self._told(uid)
        except CriError as fault:
            log.warning("the runtime does not answer: %s", fault)

    async def _relist(self) -> list[str]:
        """The pods of which something has changed."""
        ticket = self._table.ticket()
        found = await self._listed(labels.of_node(self._node))
        uids = dict.fromkeys([*found, *self._table.uids()])
        return [uid for uid in uids if await self._see(uid, *found.get(uid, ([], [])), ticket)]

    async def _refresh(self, uid: str) -> bool:
        """Whether something has changed."""
        ticket = self._table.ticket()
        found = await self._listed(labels.of_node(self._node, uid))
        return await self._see(uid, *found.get(uid, ([], [])), ticket)

    async def _listed(self, wanted: Mapping[str, str]) -> dict[str, tuple[list[Any], list[Any]]]:
        """Sandboxes and containers, by the uids of their pods."""
        cri, client = self._client.schema, self._client
        sandboxes = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=wanted))
        containers = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=wanted))
        found: dict[str, tuple[list[Any], list[Any]]] = {}
        for row in (await client.runtime("ListPodSandbox", sandboxes)).items:
            found.setdefault(row.metadata.uid, ([], []))[0].append(row)
        for row in (await client.runtime("ListContainers", containers)).containers:
            found.setdefault(row.labels[labels.POD_UID], ([], []))[1].append(row)
        return found

    async def _see(self, uid: str, sandboxes: list[Any], containers: list[Any], ticket: int) -> bool:
        """Only what is not known to be as it was is asked for by itself."""
        before = self._table.get(uid) or SeenPod()
        known_sandboxes = {each.id: each for each in before.sandboxes}
        known = {each.id: each for each in before.containers}
        seen_sandboxes = [await self._sandbox(row, known_sandboxes.get(row.id)) for row in sandboxes]
        seen_containers = [await self._container(row, known.get(row.id)) for row in containers]
        return self._table.put(
            uid, [each for each in seen_sandboxes if each], [each for each in seen_containers if each], ticket
        )

    async def _sandbox(self, row: Any, known: SeenSandbox | None) -> SeenSandbox | None:
        plain = seen.sandbox(row)
        if known is not None and known.is_ready == plain.is_ready:
            return known
        if not plain.is_ready:
            return plain
        try:
            answer = await self._client.runtime("PodSandboxStatus", self._sandbox_request(row.id))
        except CriError as fault:
            if fault.is_missing:
                return None
            raise
        return seen.sandbox(answer.status)

    async def _container(self, row: Any, known: SeenContainer | None) -> SeenContainer | None:
        if known is not None and known.state == seen.state(row.state):
            return known
        status = await self._status(row.id)
        return seen.container(status, row.pod_sandbox_id) if status is not None else None

    async def _status(self, id: str) -> Any:
        try:
            return (await self._client.runtime("ContainerStatus", self._container_request(id))).status
        except CriError as fault:
            if fault.is_missing:
                return None
            raise

    # -- parts -------------------------------------------------------------------------------------------------------

    def _sandbox_request(self, id: str) -> Any:
        return self._client.schema.SandboxRequest(pod_sandbox_id=id)

    def _container_request(self, id: str) -> Any:
        return self._client.schema.ContainerRequest(container_id=id)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _pull_failure(fault: CriError) -> RuntimeFailure:
    reason = next((word for word in _PULL_REASONS if fault.details.startswith(word)), "ErrImagePull")
    return RuntimeFailure(reason, fault.message)


def _terminal(pod: Pod, name: str) -> tuple[bool, bool]:
    """Whether the container has input, and whether it has a terminal."""
    spec = pod.spec
    for each in (*(spec.containers or ()), *spec.initContainers, *spec.ephemeralContainers):
        if each.name == name:
            return bool(each.stdin), bool(each.tty)
    return False, False


__all__ = ["CriRuntime"]
