"""The node's part of volume expansion: expands the file system while the volume is in use or when it is mounted next,
and updates the claim's status (`pkg/volume/util/operationexecutor/node_expander.go`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimCondition, Pod
from sampan.api.values import times
from sampan.api.values.quantity import Quantity, parse
from sampan.host.clock import Clock
from sampan.kubelet.volumes.contract import (
    DeviceMount,
    ExpansionNotSupported,
    ExpansionRefused,
    ExpansionUnknown,
    NodeVolumePlugin,
    ReadyVolume,
    VolumeInUse,
    VolumeOperationError,
    VolumeSpec,
)
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.events import NORMAL, WARNING

STORAGE = "storage"
PENDING, IN_PROGRESS, INFEASIBLE = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"
NODE_ERROR = "NodeResizeError"
_CONDITIONS = ("Resizing", "FileSystemResizePending", "ControllerResizeError", NODE_ERROR)
_NOT_NEEDED = "volume.kubernetes.io/node-expansion-not-required"


def size_of(amounts: Mapping[str, str]) -> Quantity:
    return parse(amounts.get(STORAGE, "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionDecision:
    is_desired: bool
    """Whether the node has to expand the volume."""
    is_recorded: bool = False
    """Whether the status of the claim already has this size, because another node was faster or nodes had nothing to
    do.
    """
    is_final: bool = False
    """Whether a failure is final, because the claim requests a different size by now."""


def is_tracked(claim: PersistentVolumeClaim) -> bool:
    """Whether the resize controller tracks the expansion in the claim's status, which older controllers do not."""
    return bool(claim.status.allocatedResourceStatuses.get(STORAGE) or claim.status.allocatedResources)


def decide(claim: PersistentVolumeClaim, size: Quantity, *, has_failed: bool) -> ExpansionDecision:
    """Decide about the expansion of a volume on this node. `size` is the size of the volume; `has_failed` says whether
    an earlier expansion has failed on this node.
    """
    status = claim.status.allocatedResourceStatuses.get(STORAGE, "")
    is_final = has_failed and size_of(claim.spec.resources.requests) != size
    is_recorded = size_of(claim.status.capacity) >= size and not status
    is_shared = "ReadWriteMany" in claim.spec.accessModes and _NOT_NEEDED not in claim.metadata.annotations
    is_desired = (is_recorded and is_shared) or status in (PENDING, IN_PROGRESS)
    return ExpansionDecision(is_desired=is_desired, is_recorded=is_recorded, is_final=is_final)


def in_progress_patch(claim: PersistentVolumeClaim) -> dict[str, Any]:
    return _build_conditional_patch(claim, {"allocatedResourceStatuses": {STORAGE: IN_PROGRESS}})


def finished_patch(claim: PersistentVolumeClaim, size: Quantity) -> dict[str, Any]:
    remaining = [condition for condition in claim.status.conditions if condition.type not in _CONDITIONS]
    status: dict[str, Any] = {"capacity": {STORAGE: str(size)}, "conditions": _values(remaining)}
    if claim.status.allocatedResourceStatuses:
        status["allocatedResourceStatuses"] = {STORAGE: None}
    return _build_conditional_patch(claim, status)


def failed_patch(claim: PersistentVolumeClaim, why: str, now: float, *, is_final: bool) -> dict[str, Any]:
    failure = PersistentVolumeClaimCondition(
        type=NODE_ERROR,
        status="True",
        lastTransitionTime=times.format_time(now),
        message=f"failed to expand pvc with {why}",
    )
    before = claim.status.conditions
    is_known = any(condition.type == NODE_ERROR and condition.status == "True" for condition in before)
    others = before if is_known else [condition for condition in before if condition.type != NODE_ERROR]
    status: dict[str, Any] = {"conditions": _values(others if is_known else [*others, failure])}
    if is_final:
        status["allocatedResourceStatuses"] = {STORAGE: INFEASIBLE}
    return {"status": status}


def _build_conditional_patch(claim: PersistentVolumeClaim, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a patch that fails with Conflict if the claim has changed meanwhile."""
    return {"metadata": {"resourceVersion": claim.metadata.resourceVersion}, "status": dict(status)}


def _values(conditions: Sequence[PersistentVolumeClaimCondition]) -> list[Any]:
    return [json.to_value(condition) for condition in conditions]


log = logging.getLogger(__name__)

FILE_SYSTEM_RESIZE_SUCCESSFUL, FILE_SYSTEM_RESIZE_FAILED, VOLUME_RESIZE_FAILED = (
    "FileSystemResizeSuccessful",
    "FileSystemResizeFailed",
    "VolumeResizeFailed",
)
_MOUNT_ERROR = "MountVolume.Setup failed while expanding volume"
_NODE_EXPAND_ERROR = "NodeExpandVolume.NodeExpandVolume failed"

RecordEvent = Callable[[Pod | PersistentVolumeClaim, str, str, str], None]
"""A function that records an event; the arguments are the object that it is about, its type, reason and message."""


class NodeExpander:
    def __init__(self, *, client: Client, clock: Clock, node_name: str, record_event: RecordEvent) -> None:
        self._claims, self._clock, self._node, self._record_event = (
            client.for_kind(PersistentVolumeClaim),
            clock,
            node_name,
            record_event,
        )
        self._sizes: dict[str, Quantity] = {}
        """Size to which this node has last expanded each volume that is set up."""
        self._failed: set[str] = set()
        """Volumes whose expansion on this node has definitely failed."""
        self._in_use: set[str] = set()
        """Volumes that cannot be expanded before they are unmounted."""

    async def on_mount(
        self, spec: VolumeSpec, plugin: NodeVolumePlugin, ready: ReadyVolume, device: DeviceMount | None
    ) -> None:
        """Expand a volume during its setup, if it has become larger since it was last set up."""
        if spec.claim is None or spec.persistent is None or not plugin.supports_expansion(spec):
            return
        before, size = size_of(spec.claim.status.capacity), size_of(spec.source.capacity)
        known_size = self._sizes.setdefault(_key(spec), before)
        self._in_use.discard(_key(spec))
        if before >= size or known_size >= size:
            return
        try:
            await self._expand(spec, plugin, ready, device, size)
        except VolumeOperationError as error:
            raise VolumeOperationError(error.text, step=_MOUNT_ERROR) from error

    async def expand_in_use(
        self, spec: VolumeSpec, plugin: NodeVolumePlugin, ready: ReadyVolume, device: DeviceMount | None
    ) -> None:
        """Expand a volume that is in use, if it has become larger. A failure produces an event."""
        if spec.claim is None or spec.is_read_only or not plugin.supports_expansion(spec) or _key(spec) in self._in_use:
            return
        before, size = size_of(spec.claim.status.capacity), size_of(spec.source.capacity)
        if self._sizes.setdefault(_key(spec), before) >= size:
            return
        try:
            await self._expand(spec, plugin, ready, device, size)
        except VolumeOperationError as error:
            self._record_event(
                spec.pod,
                WARNING,
                VOLUME_RESIZE_FAILED,
                f'{_NODE_EXPAND_ERROR} for volume "{spec.inner}" : {error.text}',
            )

    def forget(self, inner: str) -> None:
        """Drop the state of a volume that is no longer set up here."""
        self._sizes.pop(inner, None)
        self._failed.discard(inner)
        self._in_use.discard(inner)

    async def _expand(
        self, spec: VolumeSpec, plugin: NodeVolumePlugin, ready: ReadyVolume, device: DeviceMount | None, size: Quantity
    ) -> None:
        """Expand the volume. The claim is marked as in progress before the expansion and as finished after it."""
        claim = spec.claim
        assert claim is not None
        if spec.is_read_only:
            self._record_events(spec, WARNING, FILE_SYSTEM_RESIZE_FAILED, "failed", "requested read-only file system")
            return
        if not is_tracked(claim):
            await self._expand_untracked(spec, plugin, ready, device, size)
            return
        size = size_of(claim.status.allocatedResources)
        decision = decide(claim, size, has_failed=_key(spec) in self._failed)
        if not decision.is_desired:
            if decision.is_recorded:
                self._sizes[_key(spec)] = size
            return
        if not decision.is_recorded:
            claim = await self._write(claim, in_progress_patch(claim))
        try:
            await plugin.expand(spec, ready, device, int(size.value()))
        except VolumeOperationError as error:
            await self._record_failure(spec, claim, error, decision, size)
            return
        if not decision.is_recorded:
            await self._write(claim, finished_patch(claim, size))
        self._sizes[_key(spec)] = size  # set last: if the write fails, the next call writes again
        self._record_events(spec, NORMAL, FILE_SYSTEM_RESIZE_SUCCESSFUL, "succeeded", self._node)

    async def _record_failure(
        self,
        spec: VolumeSpec,
        claim: PersistentVolumeClaim,
        error: VolumeOperationError,
        decision: ExpansionDecision,
        size: Quantity,
    ) -> None:
        """Record the failure in the claim. Raise the error again, unless the expansion is not needed or must not be
        retried while the volume is in use.
        """
        if isinstance(error, ExpansionNotSupported) and decision.is_recorded:
            self._sizes[_key(spec)] = size
            return
        if not isinstance(error, ExpansionUnknown):
            self._failed.add(_key(spec))
            is_final = isinstance(error, ExpansionRefused) or decision.is_final
            patch = failed_patch(claim, error.text, self._clock.now(), is_final=is_final)
            await self._write(claim, patch)
        if isinstance(error, VolumeInUse):
            self._in_use.add(_key(spec))
            log.warning("volume %s does not support online expansion: %s", spec.inner, error.text)
            return
        raise error

    async def _expand_untracked(
        self, spec: VolumeSpec, plugin: NodeVolumePlugin, ready: ReadyVolume, device: DeviceMount | None, size: Quantity
    ) -> None:
        claim = spec.claim
        assert claim is not None
        try:
            await plugin.expand(spec, ready, device, int(size.value()))
        except ExpansionNotSupported:
            return
        except VolumeInUse:
            self._in_use.add(_key(spec))
            return
        if size_of(claim.status.capacity) < size:
            await self._write(claim, finished_patch(claim, size))
        self._sizes[_key(spec)] = size
        self._record_events(spec, NORMAL, FILE_SYSTEM_RESIZE_SUCCESSFUL, "succeeded", self._node)

    async def _write(self, claim: PersistentVolumeClaim, patch: dict[str, Any]) -> PersistentVolumeClaim:
        meta = claim.metadata
        try:
            return await self._claims.patch(
                meta.name, patch, meta.namespace, type=PatchType.MERGE, subresource="status"
            )
        except (errors.ApiError, ConnectionFailed) as error:
            raise ExpansionUnknown(f'patchPVCStatus failed to patch PVC "{meta.name}": {error}') from error

    def _record_events(self, spec: VolumeSpec, type: str, reason: str, outcome: str, more: str) -> None:
        message = f'MountVolume.NodeExpandVolume {outcome} for volume "{spec.inner}" {more}'
        for subject in (spec.pod, spec.claim):
            if subject is not None:
                self._record_event(subject, type, reason, message)


def _key(spec: VolumeSpec) -> str:
    """Return the name of the persistent volume, which is set up at most once per node."""
    return spec.inner
