"""Watch a CRI runtime and keep the pod table up to date. It corresponds to `pkg/kubelet/pleg`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from sampan.runtimes import labels
from sampan.runtimes.contract import Told
from sampan.runtimes.cri import seen
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.pod_table import PodTable, SeenContainer, SeenPod, SeenSandbox

log = logging.getLogger(__name__)

_CALM_RELIST_S = 60.0
"""The relist interval for a runtime that sends events."""


class CriView:
    """Reads the state of pods. `relist_s` is the relist interval for a runtime that does not send events."""

    def __init__(self, *, client: CriClient, node: str, table: PodTable, told: Told, relist_s: float) -> None:
        self._client, self._node, self._table, self._told = client, node, table, told
        self._relist_s = relist_s

    async def follow(self) -> None:
        """Refresh pods on the events of the runtime, or relist frequently if it sends none, until cancelled."""
        relist_s = _CALM_RELIST_S
        while True:
            async with asyncio.TaskGroup() as group:
                looks = group.create_task(self._look_often(relist_s))
                try:
                    async for event in self._client.events():
                        await self._happened(event)
                except CriError as error:
                    if error.is_unknown:
                        relist_s = self._relist_s
                    else:
                        log.warning("cannot read container events from the container runtime: %s", error)
                looks.cancel()
            if relist_s == self._relist_s:
                await self._look_often(relist_s)
            await asyncio.sleep(self._relist_s)
            await self._look()

    async def _happened(self, event: Any) -> None:
        uid = event.pod_sandbox_status.metadata.uid
        if uid and self._table.get(uid) is not None:
            try:
                await self.refresh(uid)
            except CriError as error:
                log.warning("cannot read the status of pod %s from the container runtime: %s", uid, error)

    async def _look_often(self, every_s: float) -> None:
        """Relist periodically. The first relist comes early, as changes before the event stream is established cause no
        event."""
        await asyncio.sleep(self._relist_s)
        while True:
            await self._look()
            await asyncio.sleep(every_s)

    async def _look(self) -> None:
        try:
            await self.relist()
        except CriError as error:
            log.warning("the container runtime does not respond: %s", error)

    async def relist(self) -> None:
        """Read the state of all pods of the node."""
        ticket = self._table.ticket()
        pods = await self._listed(labels.of_node(self._node))
        for uid in dict.fromkeys([*pods, *self._table.uids()]):
            await self._see(uid, *pods.get(uid, ([], [])), ticket)
        self._table.forget_before(ticket)

    async def refresh(self, uid: str) -> None:
        """Read the state of one pod, after an operation on it or an event."""
        ticket = self._table.ticket()
        pods = await self._listed(labels.of_node(self._node, uid))
        await self._see(uid, *pods.get(uid, ([], [])), ticket)

    async def _listed(self, wanted: Mapping[str, str]) -> dict[str, tuple[list[Any], list[Any]]]:
        """List sandboxes and containers by the uids of their pods."""
        cri, client = self._client.schema, self._client
        sandboxes = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=wanted))
        containers = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=wanted))
        pods: dict[str, tuple[list[Any], list[Any]]] = {}
        for row in (await client.runtime("ListPodSandbox", sandboxes)).items:
            pods.setdefault(row.metadata.uid, ([], []))[0].append(row)
        for row in (await client.runtime("ListContainers", containers)).containers:
            pods.setdefault(row.labels[labels.POD_UID], ([], []))[1].append(row)
        return pods

    async def _see(self, uid: str, sandboxes: list[Any], containers: list[Any], ticket: int) -> None:
        """Store the state of a pod, requesting details only for sandboxes and containers that have changed."""
        before = self._table.get(uid) or SeenPod()
        known_sandboxes = {item.id: item for item in before.sandboxes}
        known_containers = {item.id: item for item in before.containers}
        seen_sandboxes = [await self._sandbox(row, known_sandboxes.get(row.id)) for row in sandboxes]
        seen_containers = [await self._container(row, known_containers.get(row.id)) for row in containers]
        present = [item for item in seen_sandboxes if item], [item for item in seen_containers if item]
        if self._table.put(uid, *present, ticket):
            self._told(uid)

    async def _sandbox(self, row: Any, known: SeenSandbox | None) -> SeenSandbox | None:
        plain = seen.sandbox(row)
        if known is not None and known.is_ready == plain.is_ready:
            return known
        if not plain.is_ready:
            return plain
        try:
            answer = await self._client.runtime(
                "PodSandboxStatus", self._client.schema.SandboxRequest(pod_sandbox_id=row.id)
            )
        except CriError as error:
            if error.is_missing:
                return None
            raise
        return seen.sandbox(answer.status)

    async def _container(self, row: Any, known: SeenContainer | None) -> SeenContainer | None:
        if known is not None and known.state == seen.state(row.state):
            return known
        status = await self.status(row.id)
        return seen.container(status, row.pod_sandbox_id) if status is not None else None

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
