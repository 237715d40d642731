"""The node's part of volume expansion: expands the file system while the volume is in use or when it is mounted next,
and updates the claim's status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sampan.api.quantity import Quantity
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.kubelet.volumes import growth_status
from sampan.kubelet.volumes.contract import (
    CannotGrow,
    Device,
    IsInUse,
    MayHaveGrown,
    Plugin,
    Ready,
    Spec,
    VolumeFault,
    WillNotGrow,
)
from sampan.kubelet.volumes.growth_status import Outlook, size_of
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.clock import Clock
from sampan.machinery.events import NORMAL, WARNING

log = logging.getLogger(__name__)

DONE, FAILED, IN_USE_FAILED = "FileSystemResizeSuccessful", "FileSystemResizeFailed", "VolumeResizeFailed"
_WHILE_MOUNTING = "MountVolume.Setup failed while expanding volume"
_IN_USE = "NodeExpandVolume.NodeExpandVolume failed"

Tell = Callable[[Pod | PersistentVolumeClaim, str, str, str], None]
"""Record an event with the object it is about, type, reason and message."""


class Growth:
    def __init__(self, *, client: Client, clock: Clock, node_name: str, tell: Tell) -> None:
        self._claims, self._clock, self._node, self._tell = client.of(PersistentVolumeClaim), clock, node_name, tell
        self._sizes: dict[str, Quantity] = {}
        """Size to which this node has last expanded each volume that is set up."""
        self._failed: set[str] = set()
        """Volumes whose expansion on this node has definitely failed."""
        self._in_use: set[str] = set()
        """Volumes that cannot be expanded before they are unmounted."""

    async def on_mount(self, spec: Spec, plugin: Plugin, ready: Ready, device: Device | None) -> None:
        """Expand a volume during its setup, if it has become larger since."""
        if spec.claim is None or spec.persistent is None or not plugin.can_grow(spec):
            return
        before, size = size_of(spec.claim.status.capacity), size_of(spec.source.capacity)
        known_size = self._sizes.setdefault(_key(spec), before)
        self._in_use.discard(_key(spec))
        if before >= size or known_size >= size:
            return
        try:
            await self._grow(spec, plugin, ready, device, size)
        except VolumeFault as error:
            raise VolumeFault(error.text, step=_WHILE_MOUNTING) from error

    async def in_use(self, spec: Spec, plugin: Plugin, ready: Ready, device: Device | None) -> None:
        """Expand a volume that is in use, if it has become larger."""
        if spec.claim is None or spec.is_read_only or not plugin.can_grow(spec) or _key(spec) in self._in_use:
            return
        before, size = size_of(spec.claim.status.capacity), size_of(spec.source.capacity)
        if self._sizes.setdefault(_key(spec), before) >= size:
            return
        try:
            await self._grow(spec, plugin, ready, device, size)
        except VolumeFault as error:
            self._tell(spec.pod, WARNING, IN_USE_FAILED, f'{_IN_USE} for volume "{spec.inner}" : {error.text}')

    def forget(self, inner: str) -> None:
        """Drop the state of a volume that is no longer set up here."""
        self._sizes.pop(inner, None)
        self._failed.discard(inner)
        self._in_use.discard(inner)

    async def _grow(self, spec: Spec, plugin: Plugin, ready: Ready, device: Device | None, size: Quantity) -> None:
        """Expand the volume. The claim is marked as in progress before the expansion and as finished after it."""
        claim = spec.claim
        assert claim is not None
        if spec.is_read_only:
            self._tell_both(spec, WARNING, FAILED, "failed", "requested read-only file system")
            return
        if not growth_status.is_followed(claim):
            await self._grow_unfollowed(spec, plugin, ready, device, size)
            return
        size = size_of(claim.status.allocatedResources)
        outlook = growth_status.outlook(claim, size, has_failed=_key(spec) in self._failed)
        if not outlook.is_wanted:
            if outlook.is_told:
                self._sizes[_key(spec)] = size
            return
        if not outlook.is_told:
            claim = await self._write(claim, growth_status.begun(claim))
        try:
            await plugin.grow(spec, ready, device, int(size.value()))
        except VolumeFault as error:
            await self._note_fault(spec, claim, error, outlook, size)
            return
        if not outlook.is_told:
            await self._write(claim, growth_status.finished(claim, size))
        self._sizes[_key(spec)] = size  # only now: if the write fails, the next call writes it again
        self._tell_both(spec, NORMAL, DONE, "succeeded", self._node)

    async def _note_fault(
        self, spec: Spec, claim: PersistentVolumeClaim, fault: VolumeFault, found: Outlook, size: Quantity
    ) -> None:
        """Record the failure in the claim. Raise VolumeFault again, unless the expansion is not needed or must not be
        retried while the volume is in use.
        """
        if isinstance(fault, CannotGrow) and found.is_told:
            self._sizes[_key(spec)] = size
            return
        if not isinstance(fault, MayHaveGrown):
            self._failed.add(_key(spec))
            is_final = isinstance(fault, WillNotGrow) or found.is_final
            patch = growth_status.failed(claim, fault.text, self._clock.now(), is_final=is_final)
            await self._write(claim, patch)
        if isinstance(fault, IsInUse):
            self._in_use.add(_key(spec))
            log.warning("volume %s does not support online expansion: %s", spec.inner, fault.text)
            return
        raise fault

    async def _grow_unfollowed(
        self, spec: Spec, plugin: Plugin, ready: Ready, device: Device | None, size: Quantity
    ) -> None:
        claim = spec.claim
        assert claim is not None
        try:
            await plugin.grow(spec, ready, device, int(size.value()))
        except CannotGrow:
            return
        except IsInUse:
            self._in_use.add(_key(spec))
            return
        if size_of(claim.status.capacity) < size:
            await self._write(claim, growth_status.finished(claim, size))
        self._sizes[_key(spec)] = size
        self._tell_both(spec, NORMAL, DONE, "succeeded", self._node)

    async def _write(self, claim: PersistentVolumeClaim, patch: dict[str, Any]) -> PersistentVolumeClaim:
        meta = claim.metadata
        try:
            return await self._claims.patch(
                meta.name, patch, meta.namespace, type=PatchType.MERGE, subresource="status"
            )
        except (errors.ApiError, ConnectionFailed) as error:
            raise MayHaveGrown(f'patchPVCStatus failed to patch PVC "{meta.name}": {error}') from error

    def _tell_both(self, spec: Spec, type: str, reason: str, outcome: str, more: str) -> None:
        message = f'MountVolume.NodeExpandVolume {outcome} for volume "{spec.inner}" {more}'
        for about in (spec.pod, spec.claim):
            if about is not None:
                self._tell(about, type, reason, message)


def _key(spec: Spec) -> str:
    """Return the name of the persistent volume, which is set up at most once per node."""
    return spec.inner
