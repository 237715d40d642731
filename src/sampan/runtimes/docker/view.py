"""Watch the Docker Engine and keep the pod table up to date."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from sampan.host.clock import Clock
from sampan.runtimes import contract, labels
from sampan.runtimes.contract import ContainerUsage, PodCallback, RuntimeFailure
from sampan.runtimes.docker import messages
from sampan.runtimes.docker.client import DockerClient, DockerError, Query
from sampan.runtimes.docker.logs import LogCopies
from sampan.runtimes.network import PodNetwork
from sampan.runtimes.pod_table import ObservedContainer, ObservedPod, ObservedSandbox, PodTable
from sampan.runtimes.records import SandboxConfigs
from sampan.runtimes.usage import CpuRates, pod_usage

log = logging.getLogger(__name__)

_RELIST_S = 60.0
_RECONNECT_S = 1.0
_EVENTS = ("die", "start", "destroy", "oom")

_Row = Mapping[str, Any]


class DockerView:
    def __init__(
        self,
        *,
        client: DockerClient,
        node: str,
        table: PodTable,
        configs: SandboxConfigs,
        network: PodNetwork | None,
        logs: LogCopies,
        on_pod_change: PodCallback,
    ) -> None:
        self._client, self._node, self._table, self._configs = client, node, table, configs
        self._network, self._logs, self._on_pod_change = network, logs, on_pod_change

    async def follow(self, since: float) -> None:
        """Refresh pods on the events of the engine since that time, until cancelled. Relist after each reconnection."""
        filters = {"type": ["container"], "event": list(_EVENTS), "label": [f"{labels.NODE}={self._node}"]}
        while True:
            query: Query = {"filters": json.dumps(filters), "since": f"{since:.3f}"}
            try:
                async for event in self._client.lines("GET", "/events", query):
                    actor, since = event["Actor"], event["timeNano"] / 1e9
                    await self._on_event(actor["Attributes"].get(labels.POD_UID, ""))
            except DockerError as error:
                log.warning("cannot read events from Docker: %s", error)
            await asyncio.sleep(_RECONNECT_S)
            await self._try_relist()

    async def _on_event(self, uid: str) -> None:
        try:
            if uid:
                await self.refresh(uid)
        except DockerError as error:
            log.warning("cannot read the status of pod %s from Docker: %s", uid, error)

    async def relist_periodically(self) -> None:
        """Relist periodically until cancelled, to detect changes without an event."""
        while True:
            await asyncio.sleep(_RELIST_S)
            await self._try_relist()

    async def _try_relist(self) -> None:
        try:
            await self.relist()
        except DockerError as error:
            log.warning("Docker does not respond: %s", error)

    async def relist(self) -> None:
        """Read the state of all pods of the node."""
        ticket = self._table.ticket()
        pods = await self._list(labels.build_selector(self._node))
        for uid in dict.fromkeys([*pods, *self._table.uids()]):
            await self._update_pod(uid, pods.get(uid, ()), ticket, is_settled=True)
        self._table.forget_before(ticket)

    async def refresh(self, uid: str) -> None:
        """Read the state of one pod, after an operation on it or an event."""
        ticket = self._table.ticket()
        pods = await self._list(labels.build_selector(self._node, uid))
        await self._update_pod(uid, pods.get(uid, ()), ticket)

    async def _list(self, selector: Mapping[str, str]) -> dict[str, list[_Row]]:
        """List containers by the uids of their pods."""
        filters = json.dumps({"label": [f"{name}={value}" for name, value in selector.items()]})
        pods: dict[str, list[_Row]] = {}
        for row in await self._client.get("/containers/json", {"all": 1, "filters": filters}):
            pods.setdefault(messages.uid(row), []).append(row)
        return pods

    async def _update_pod(self, uid: str, rows: Sequence[_Row], ticket: int, *, is_settled: bool = False) -> None:
        """Store the state of a pod, inspecting only containers that may have changed. The engine's lists lag behind its
        events, so unless `is_settled` only a known exited container is taken from the list."""
        before = self._table.get(uid) or ObservedPod()
        known_containers = {
            container.id: container for container in before.containers if container.is_over or is_settled
        }
        sandboxes: list[ObservedSandbox] = []
        containers: list[ObservedContainer] = []
        for row in rows:
            old = known_containers.get(row["Id"])
            if old is not None and old.state == messages.state(row["State"]):
                containers.append(old)
            elif (details := await self._inspect(row["Id"])) is not None:
                if messages.is_sandbox(details):
                    sandboxes.append(self._sandbox(uid, details))
                else:
                    containers.append(await self._container(details))
        if self._table.put(uid, sandboxes, containers, ticket):
            self._on_pod_change(uid)

    async def _container(self, row: _Row) -> ObservedContainer:
        container = messages.container(row)
        await self._logs.ensure_copy(container, has_tty=bool(row["Config"]["Tty"]))
        return container

    def _sandbox(self, uid: str, row: _Row) -> ObservedSandbox:
        """Convert a pause container. The sandbox is ready only if its configuration was saved, which is the last step
        of creating it."""
        plain = messages.sandbox(row)
        try:
            is_whole = self._configs.get(uid).attempt == plain.attempt
        except RuntimeFailure:
            is_whole = False
        ips = plain.ips if self._network is None else self._network.addresses(uid)
        return dataclasses.replace(plain, is_ready=plain.is_ready and is_whole, ips=list(ips))

    async def _inspect(self, id: str) -> _Row | None:
        try:
            details: _Row = await self._client.get(f"/containers/{id}/json")
        except DockerError as error:
            if error.is_missing:
                return None
            raise
        return details


class DockerUsage:
    def __init__(self, *, client: DockerClient, rates: CpuRates, clock: Clock) -> None:
        self._client, self._rates, self._clock = client, rates, clock

    async def measure_pod(self, pod: ObservedPod | None) -> Sequence[ContainerUsage]:
        if pod is None or pod.sandbox is None or not pod.sandbox.is_ready:
            return []
        running = [item for item in pod.containers if item.state == contract.RUNNING]
        looks = await asyncio.gather(*(self._measure_container(container) for container in running))
        used = [item for item in looks if item is not None]
        pause_processes = 1
        return [pod_usage(used, pid=pod.sandbox.pid, extra_processes=pause_processes), *used]

    async def _measure_container(self, container: ObservedContainer) -> ContainerUsage | None:
        query = {"stream": "false", "one-shot": "true"}
        try:
            stats = await self._client.get(f"/containers/{container.id}/stats", query)
        except DockerError as error:
            if error.is_missing:
                return None
            raise
        cores = self._rates.rate(container.id, messages.cpu_s(stats), self._clock.monotonic())
        usage = messages.usage(container.name, stats, cores)
        usage.log_bytes = _size(container.log_path)
        return usage


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:
        return None
