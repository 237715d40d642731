"""Writes the volume bindings of a pod to the server and waits until the claims are bound."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.clock import Clock
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import Informer
from sampan.machinery.volumes.binding import volume_bound
from sampan.machinery.volumes.words import SELECTED_NODE
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.volumes.claims import is_bound
from sampan.scheduler.volumes.reach import reached


class BindingFailed(Exception):
    """Volumes could not be bound. The message becomes the text of the event."""


@dataclass(slots=True)
class Plan:
    node: str
    volumes: list[PersistentVolume]
    """Modified copies, each with a claimRef to the claim that it is chosen for."""
    claims: list[PersistentVolumeClaim]
    """Modified copies, each annotated with the node to provision a volume for."""
    pairs: list[tuple[str, PersistentVolumeClaim]]
    """Names of volumes with the claims that they are chosen for."""

    @classmethod
    def of(
        cls,
        static: Sequence[tuple[PersistentVolumeClaim, PersistentVolume]],
        made: Sequence[PersistentVolumeClaim],
        node: str,
    ) -> Plan:
        changed = [volume_bound(volume, claim) for claim, volume in static]
        claims = []
        for claim in made:
            copy = copy_of(claim)
            copy.metadata.annotations[SELECTED_NODE] = node
            claims.append(copy)
        pairs = [(volume.metadata.name, claim) for claim, volume in static]
        return cls(node, [volume for volume in changed if volume is not None], claims, pairs)


class Bindings:
    def __init__(
        self,
        *,
        client: Client,
        clock: Clock,
        claims: Informer[PersistentVolumeClaim],
        volumes: Informer[PersistentVolume],
        table: NodeTable,
    ) -> None:
        self._clock, self._table = clock, table
        self._claim_client, self._volume_client = client.of(PersistentVolumeClaim), client.of(PersistentVolume)
        self._claims, self._volumes = claims.lister, volumes.lister
        self._waiting: set[asyncio.Event] = set()
        claims.subscribe(self._changed)
        volumes.subscribe(self._changed)

    async def carry_out(self, pod: Pod, plan: Plan, timeout_s: float) -> None:
        try:
            written = [await self._volume_client.update(volume) for volume in plan.volumes]
            claims = [await self._claim_client.update(claim) for claim in plan.claims]
        except (errors.ApiError, ConnectionFailed) as error:
            raise BindingFailed(str(error)) from error
        since = _Since(
            {volume.metadata.name: volume.metadata.resourceVersion for volume in written},
            {claim.metadata.name: claim.metadata.resourceVersion for claim in claims},
        )
        await self._wait(plan, since, timeout_s)

    async def _wait(self, plan: Plan, since: _Since, timeout_s: float) -> None:
        changed = asyncio.Event()
        self._waiting.add(changed)
        is_late = False
        try:
            async with asyncio.TaskGroup() as group:
                timer = group.create_task(self._clock.sleep(timeout_s))
                timer.add_done_callback(lambda _: changed.set())
                while (message := self._judged(plan, since)) is None and not is_late:
                    changed.clear()
                    is_late = timer.done() or (await changed.wait() and timer.done())
                timer.cancel()
        finally:
            self._waiting.discard(changed)
        if message or is_late:
            raise BindingFailed(f"binding volumes: {message or 'context deadline exceeded'}")

    def _judged(self, plan: Plan, since: _Since) -> str | None:
        """Return an error message, an empty string if everything is bound, or None while binding is in progress."""
        try:
            return "" if self._is_done(plan, since) else None
        except BindingFailed as error:
            return str(error)

    def _is_done(self, plan: Plan, since: _Since) -> bool:
        return all(self._is_static_done(name, claim, plan, since) for name, claim in plan.pairs) and all(
            self._is_made(claim, plan, since) for claim in plan.claims
        )

    def _is_static_done(self, name: str, claim: PersistentVolumeClaim, plan: Plan, since: _Since) -> bool:
        volume = self._volumes.get(name)
        if volume is None:
            raise BindingFailed(f'failed to check binding: persistentvolume "{name}" not found')
        if _is_older(volume, since.volumes.get(name)):
            return False
        self._check_reach(volume, plan.node)
        if volume.spec.claimRef is None or not volume.spec.claimRef.uid:
            raise BindingFailed(f'ClaimRef got reset for pv "{name}"')
        return is_bound(self._claim(claim, "failed to check binding"))

    def _is_made(self, claim: PersistentVolumeClaim, plan: Plan, since: _Since) -> bool:
        current = self._claim(claim, "failed to check provisioning pvc")
        if _is_older(current, since.claims.get(claim.metadata.name)):
            return False
        if current.metadata.annotations.get(SELECTED_NODE) != plan.node:
            raise BindingFailed(f'provisioning failed for PVC "{claim.metadata.name}"')
        if current.spec.volumeName:
            volume = self._volumes.get(current.spec.volumeName)
            if volume is None:
                return False
            self._check_reach(volume, plan.node)
        return is_bound(current)

    def _claim(self, claim: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        current = self._claims.get(claim.metadata.name, claim.metadata.namespace)
        if current is None:
            missing = f'persistentvolumeclaim "{claim.metadata.name}" not found'
            raise BindingFailed(f"{doing}: {missing}")
        return current

    def _check_reach(self, volume: PersistentVolume, node: str) -> None:
        row = self._table.rows.get(node)
        if row is None:
            raise BindingFailed(f'failed to get node "{node}": node "{node}" not found')
        if not reached(self._table, volume, np.array([row], dtype=np.intp))[0]:
            what = f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node}"'
            raise BindingFailed(f"{what}: no matching NodeSelectorTerms")

    def _changed(self, old: Any, new: Any) -> None:
        for event in self._waiting:
            event.set()


@dataclass(frozen=True, slots=True)
class _Since:
    """The written resource versions; older cached versions are ignored."""

    volumes: dict[str, str]
    claims: dict[str, str]


def _is_older(obj: Any, version: str | None) -> bool:
    return version is not None and int(obj.metadata.resourceVersion) < int(version)
