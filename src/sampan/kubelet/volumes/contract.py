"""The contract of volume plug-ins: what they are told of a volume, what they give back, how they fail.

A plug-in works on one volume of one pod at a time. Everything may be asked of it again: after a failure, after a change
of what the volume is made of, after a restart of the kubelet. Plug-ins keep no state of their own but what is on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sampan.api.types.core_v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    PodSecurityContext,
    Volume,
)

SET_UP, MOUNT_DEVICE, WAIT_FOR_ATTACH = (
    f"MountVolume.{step} failed" for step in ("SetUp", "MountDevice", "WaitForAttach")
)
BLOCK = "Block"
NONE = PersistentVolumeSpec()


class VolumeFault(Exception):
    """Why a volume cannot be had; `step` is how the event that tells it begins."""

    def __init__(self, text: str, *, step: str = SET_UP) -> None:
        super().__init__(text)
        self.text, self.step = text, step


class ClaimFault(VolumeFault):
    """What the pod claims is not there: nothing was tried."""


class CannotGrow(VolumeFault):
    """The plug-in cannot make volumes larger."""


class IsInUse(VolumeFault):
    """It cannot become larger while it is used here."""


class WillNotGrow(VolumeFault):
    """It will never be that large."""


class MayHaveGrown(VolumeFault):
    """Nobody knows: it has to be tried again."""


class NotAttached(VolumeFault):
    """Somebody else still has to attach the volume to this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A volume of a pod: what the pod itself says, or the persistent volume behind what it claims."""

    pod: Pod
    volume: Volume
    persistent: PersistentVolume | None = None
    claim: PersistentVolumeClaim | None = None
    """By which it was found, as it was then."""
    is_read_only: bool = False
    """The claim is used for reading only."""
    is_block: bool = False

    @property
    def outer(self) -> str:
        """As the pod's containers call it."""
        return self.volume.name

    @property
    def inner(self) -> str:
        """As it is called on disk."""
        return self.persistent.metadata.name if self.persistent is not None else self.volume.name

    @property
    def source(self) -> PersistentVolumeSpec:
        """Of the persistent volume; without one, nothing."""
        return self.persistent.spec if self.persistent is not None else NONE

    @property
    def security(self) -> PodSecurityContext:
        return self.pod.spec.securityContext or PodSecurityContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A volume that is set up."""

    path: Path
    is_read_only: bool = False
    """Whatever the containers say."""
    image: str = ""
    """In place of `path`, the files of this image."""
    device: Path | None = None
    """In place of `path`, a block device."""
    again_s: float | None = None
    """In how many seconds it has to be set up anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What is mounted once on the node for all pods that use the volume."""

    unique: str
    """The volume's name in the node's status: plug-in and volume."""
    path: Path
    is_attachable: bool = False
    """Somebody else has to attach it to the node first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Of a volume; of what is not known there is none."""

    used_bytes: int = 0
    capacity_bytes: int = 0
    available_bytes: int = 0
    used_inodes: int = 0
    inodes: int = 0
    free_inodes: int = 0


class Plugin(Protocol):
    """Faults are VolumeFault or OSError."""

    @property
    def name(self) -> str:
        """kubernetes.io/…, as in the layout on disk."""

    def supports(self, spec: Spec) -> bool: ...

    async def set_up(self, spec: Spec) -> Ready:
        """Have the volume ready for the pod's containers."""

    async def tear_down(self, uid: str, inner: str) -> None:
        """Undo that; there may be nothing, or only a part of it."""

    def can_grow(self, spec: Spec) -> bool:
        """Whether something has to be done here when such a volume has become larger."""

    async def grow(self, spec: Spec, ready: Ready, device: Device | None, size: int) -> None:
        """Have the volume, which is set up, fill that many bytes. CannotGrow and its like, or another VolumeFault."""

    async def usage(self, uid: str, inner: str, ready: Ready) -> Usage | None:
        """As the one who keeps the volume has it; None: what the file system says counts."""

    # -- volumes that are mounted on the node first ------------------------------------------------------------------

    async def device(self, spec: Spec) -> Device | None:
        """None where each pod's volume is by itself."""

    async def wait_for_attach(self, spec: Spec) -> None:
        """NotAttached until it is."""

    async def is_exhausted(self, spec: Spec) -> bool:
        """It is not attached because the node can have no more of them."""

    async def mount_device(self, spec: Spec, device: Device) -> None: ...

    async def unmount_device(self, device: Device) -> None: ...

    def device_on_disk(self, uid: str, inner: str) -> Device | None:
        """Of a volume that a kubelet before this one has set up."""

    def devices_on_disk(self) -> Sequence[Device]:
        """All that a kubelet before this one has mounted."""


class PluginBase:
    """For plug-ins without a device, whose volumes are as large as they are."""

    def can_grow(self, spec: Spec) -> bool:
        return False

    async def grow(self, spec: Spec, ready: Ready, device: Device | None, size: int) -> None:
        return None

    async def usage(self, uid: str, inner: str, ready: Ready) -> Usage | None:
        return None

    async def device(self, spec: Spec) -> Device | None:
        return None

    async def wait_for_attach(self, spec: Spec) -> None:
        return None

    async def is_exhausted(self, spec: Spec) -> bool:
        return False

    async def mount_device(self, spec: Spec, device: Device) -> None:
        return None

    async def unmount_device(self, device: Device) -> None:
        return None

    def device_on_disk(self, uid: str, inner: str) -> Device | None:
        return None

    def devices_on_disk(self) -> Sequence[Device]:
        return ()


__all__ = ["BLOCK", "MOUNT_DEVICE", "SET_UP", "WAIT_FOR_ATTACH"]
__all__ += ["CannotGrow", "ClaimFault", "Device", "IsInUse", "MayHaveGrown", "NotAttached", "Plugin", "PluginBase"]
__all__ += ["Ready", "Spec", "Usage", "VolumeFault", "WillNotGrow"]
