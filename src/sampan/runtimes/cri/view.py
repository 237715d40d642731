"""Watch a CRI runtime and keep the pod table up to date. It corresponds to `pkg/kubelet/pleg`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.host.clock import Clock
from sampan.runtimes import contract, labels
from sampan.runtimes.contract import ContainerUsage, PodCallback
from sampan.runtimes.cri import messages
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.pod_table import ObservedContainer, ObservedPod, ObservedSandbox, PodTable
from sampan.runtimes.usage import CpuRates

log = logging.getLogger(__name__)

_RELIST_WITH_EVENTS_S = 60.0
"""The relist interval for a runtime that sends events."""


class CriView:
    """Reads the state of pods. `relist_s` is the relist interval for a runtime that does not send events."""

    def __init__(
        self, *, client: CriClient, node: str, table: PodTable, on_pod_change: PodCallback, relist_s: float
    ) -> None:
        self._client, self._node, self._table, self._on_pod_change = client, node, table, on_pod_change
        self._relist_s = relist_s

    async def follow(self) -> None:
        """Refresh pods on the events of the runtime, or relist frequently if it sends none, until cancelled."""
        relist_s = _RELIST_WITH_EVENTS_S
        while True:
            async with asyncio.TaskGroup() as group:
                relisting = group.create_task(self._relist_every(relist_s))
                try:
                    async for event in self._client.events():
                        await self._on_event(event)
                except CriError as error:
                    if error.is_unknown:
                        relist_s = self._relist_s
                    else:
                        log.warning("cannot read container events from the container runtime: %s", error)
                relisting.cancel()
            if relist_s == self._relist_s:
                await self._relist_every(relist_s)
            await asyncio.sleep(self._relist_s)
            await self._try_relist()

    async def _on_event(self, event: Any) -> None:
        uid = event.pod_sandbox_status.metadata.uid
        if uid and self._table.get(uid) is not None:
            try:
                await self.refresh(uid)
            except CriError as error:
                log.warning("cannot read the status of pod %s from the container runtime: %s", uid, error)

    async def _relist_every(self, every_s: float) -> None:
        """Relist periodically. The first relist comes early, as changes before the event stream is established cause no
        event."""
        await asyncio.sleep(self._relist_s)
        while True:
            await self._try_relist()
            await asyncio.sleep(every_s)

    async def _try_relist(self) -> None:
        try:
            await self.relist()
        except CriError as error:
            log.warning("the container runtime does not respond: %s", error)

    async def relist(self) -> None:
        """Read the state of all pods of the node."""
        ticket = self._table.ticket()
        pods = await self._list(labels.build_selector(self._node))
        for uid in dict.fromkeys([*pods, *self._table.uids()]):
            await self._update_pod(uid, *pods.get(uid, ([], [])), ticket)
        self._table.forget_before(ticket)

    async def refresh(self, uid: str) -> None:
        """Read the state of one pod, after an operation on it or an event."""
        ticket = self._table.ticket()
        pods = await self._list(labels.build_selector(self._node, uid))
        await self._update_pod(uid, *pods.get(uid, ([], [])), ticket)

    async def _list(self, selector: Mapping[str, str]) -> dict[str, tuple[list[Any], list[Any]]]:
        """List sandboxes and containers by the uids of their pods."""
        cri, client = self._client.schema, self._client
        sandboxes = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=selector))
        containers = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=selector))
        pods: dict[str, tuple[list[Any], list[Any]]] = {}
        for row in (await client.runtime("ListPodSandbox", sandboxes)).items:
            pods.setdefault(row.metadata.uid, ([], []))[0].append(row)
        for row in (await client.runtime("ListContainers", containers)).containers:
            pods.setdefault(row.labels[labels.POD_UID], ([], []))[1].append(row)
        return pods

    async def _update_pod(self, uid: str, sandboxes: list[Any], containers: list[Any], ticket: int) -> None:
        """Store the state of a pod, requesting details only for sandboxes and containers that have changed."""
        before = self._table.get(uid) or ObservedPod()
        known_sandboxes = {item.id: item for item in before.sandboxes}
        known_containers = {item.id: item for item in before.containers}
        seen_sandboxes = [await self._sandbox(row, known_sandboxes.get(row.id)) for row in sandboxes]
        seen_containers = [await self._container(row, known_containers.get(row.id)) for row in containers]
        present = [item for item in seen_sandboxes if item], [item for item in seen_containers if item]
        if self._table.put(uid, *present, ticket):
            self._on_pod_change(uid)

    async def _sandbox(self, row: Any, previous: ObservedSandbox | None) -> ObservedSandbox | None:
        plain = messages.sandbox(row)
        if previous is not None and previous.is_ready == plain.is_ready:
            return previous
        if not plain.is_ready:
            return plain
        try:
            response = await self._client.runtime(
                "PodSandboxStatus", self._client.schema.SandboxRequest(pod_sandbox_id=row.id)
            )
        except CriError as error:
            if error.is_missing:
                return None
            raise
        return messages.sandbox(response.status)

    async def _container(self, row: Any, previous: ObservedContainer | None) -> ObservedContainer | None:
        if previous is not None and previous.state == messages.state(row.state):
            return previous
        status = await self.status(row.id)
        return messages.container(status, row.pod_sandbox_id) if status is not None else None

    async def status(self, id: str) -> Any:
        """Return the status of a container, or None if it does not exist."""
        try:
            return (
                await self._client.runtime("ContainerStatus", self._client.schema.ContainerRequest(container_id=id))
            ).status
        except CriError as error:
            if error.is_missing:
                return None
            raise


class CriUsage:
    def __init__(self, *, client: CriClient, rates: CpuRates, clock: Clock) -> None:
        self._client, self._rates, self._clock = client, rates, clock

    async def measure_pod(self, pod: ObservedPod | None) -> Sequence[ContainerUsage]:
        if pod is None or pod.sandbox is None or not pod.sandbox.is_ready:
            return []
        cri = self._client.schema
        request = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(pod_sandbox_id=pod.sandbox.id))
        listed = await self._client.runtime("ListContainerStats", request)
        running = {container.id: container for container in pod.containers if container.state == contract.RUNNING}
        own = [container for container in listed.stats if container.attributes.id in running]
        return [
            *await self._measure_sandbox(pod.sandbox),
            *(self._measure_container(container, running) for container in own),
        ]

    async def _measure_sandbox(self, sandbox: ObservedSandbox) -> list[ContainerUsage]:
        """Return the usage of the sandbox, or nothing if the runtime is too old to report it."""
        request = self._client.schema.SandboxRequest(pod_sandbox_id=sandbox.id)
        try:
            response = await self._client.runtime("PodSandboxStats", request)
        except CriError:
            return []
        used_s = response.stats.linux.cpu.usage_core_nano_seconds.value / 1e9
        return [messages.sandbox_usage(response.stats, self._rates.rate(sandbox.id, used_s, self._clock.monotonic()))]

    def _measure_container(self, stats: Any, running: Mapping[str, ObservedContainer]) -> ContainerUsage:
        id, used_s = stats.attributes.id, stats.cpu.usage_core_nano_seconds.value / 1e9
        usage = messages.container_usage(stats, self._rates.rate(id, used_s, self._clock.monotonic()))
        with contextlib.suppress(OSError):
            usage.log_bytes = Path(running[id].log_path).stat().st_size
        return usage
