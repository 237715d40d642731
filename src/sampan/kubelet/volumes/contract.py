"""Interface of volume plugins: the description of a volume, the results and the errors.

A plugin works on one volume of one pod at a time. Every operation may be repeated: after an error, after a change of
the volume's source, after a restart of the kubelet. Plugins keep no state except on disk.
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


class VolumeOperationError(Exception):
    """A volume operation failed; `step` is the beginning of the event's message."""

    def __init__(self, text: str, *, step: str = SET_UP) -> None:
        super().__init__(text)
        self.text, self.step = text, step


class ClaimError(VolumeOperationError):
    """The pod's claim cannot be used, so that nothing was attempted."""


class ExpansionNotSupported(VolumeOperationError):
    """The plugin does not support expansion."""


class VolumeInUse(VolumeOperationError):
    """The volume cannot be expanded while it is in use on this node."""


class ExpansionRefused(VolumeOperationError):
    """The driver refuses the expansion: it is infeasible."""


class ExpansionUnknown(VolumeOperationError):
    """The outcome of the expansion is unknown, so it must be retried."""


class NotAttached(VolumeOperationError):
    """The volume has not been attached to this node yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec:
    """A volume of a pod: the volume source in the pod, or the persistent volume that its claim is bound to."""

    pod: Pod
    volume: Volume
    persistent: PersistentVolume | None = None
    claim: PersistentVolumeClaim | None = None
    """The claim as it was when the volume was resolved."""
    is_read_only: bool = False
    """Whether the claim is used read-only."""
    is_block: bool = False

    @property
    def outer(self) -> str:
        """The name of the volume in the pod."""
        return self.volume.name

    @property
    def inner(self) -> str:
        """The name of the volume on disk: that of the persistent volume, or else the name in the pod."""
        return self.persistent.metadata.name if self.persistent is not None else self.volume.name

    @property
    def source(self) -> PersistentVolumeSpec:
        """The spec of the persistent volume, empty if there is none."""
        return self.persistent.spec if self.persistent is not None else NONE

    @property
    def security(self) -> PodSecurityContext:
        return self.pod.spec.securityContext or PodSecurityContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyVolume:
    """A volume that has been set up for a pod."""

    path: Path
    is_read_only: bool = False
    """Whether containers mount the volume read-only, whatever they request."""
    image: str = ""
    """Image whose files are mounted instead of `path`."""
    device: Path | None = None
    """A block device that containers use instead of `path`."""
    again_s: float | None = None
    """Seconds after which the volume has to be set up again, for example to refresh tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMount:
    """The mount of a volume on the node, which all pods share that use the volume."""

    unique_name: str
    """Unique name of the volume in the node status, composed of the names of plugin and volume."""
    path: Path
    is_attachable: bool = False
    """Whether a controller has to attach the volume to the node first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverUsage:
    """Usage of a volume as its driver reports it; unknown figures are 0."""

    used_bytes: int = 0
    capacity_bytes: int = 0
    available_bytes: int = 0
    used_inodes: int = 0
    inodes: int = 0
    free_inodes: int = 0


class NodeVolumePlugin(Protocol):
    """A volume plugin. Errors are raised as VolumeOperationError or OSError."""

    @property
    def name(self) -> str:
        """Name of the plugin such as kubernetes.io/…, used in the directory layout."""

    def supports(self, spec: VolumeSpec) -> bool: ...

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        """Set up the volume for the pod's containers."""

    async def tear_down(self, uid: str, inner: str) -> None:
        """Undo `set_up`, which may have been incomplete or never happened."""

    def supports_expansion(self, spec: VolumeSpec) -> bool:
        """Whether the node takes part in the expansion of this volume."""

    async def expand(self, spec: VolumeSpec, ready: ReadyVolume, device: DeviceMount | None, size: int) -> None:
        """Expand a volume that is set up to `size` bytes. Raise ExpansionNotSupported, VolumeInUse, ExpansionRefused,
        ExpansionUnknown or another VolumeOperationError.
        """

    async def usage(self, uid: str, inner: str, ready: ReadyVolume) -> DriverUsage | None:
        """Return the usage of the volume that its driver reports, or None to use that of the file system."""

    # -- volumes with a shared mount ---------------------------------------------------------------------------------

    async def device(self, spec: VolumeSpec) -> DeviceMount | None:
        """Return the shared mount of the volume, or None if every pod has a mount of its own."""

    async def check_attached(self, spec: VolumeSpec) -> None:
        """Return if the volume is attached to the node. Raise NotAttached otherwise."""

    async def is_exhausted(self, spec: VolumeSpec) -> bool:
        """Whether the volume is not attached because the node has reached its volume attachment limit."""

    async def mount_device(self, spec: VolumeSpec, device: DeviceMount) -> None: ...

    async def unmount_device(self, device: DeviceMount) -> None: ...

    def device_on_disk(self, uid: str, inner: str) -> DeviceMount | None:
        """Return the shared mount of a volume that an earlier kubelet has set up."""

    def devices_on_disk(self) -> Sequence[DeviceMount]:
        """Return all shared mounts that an earlier kubelet has left on disk."""


class VolumePluginBase:
    """Default methods for plugins without a shared mount and without expansion."""

    def supports_expansion(self, spec: VolumeSpec) -> bool:
        return False

    async def expand(self, spec: VolumeSpec, ready: ReadyVolume, device: DeviceMount | None, size: int) -> None:
        return None

    async def usage(self, uid: str, inner: str, ready: ReadyVolume) -> DriverUsage | None:
        return None

    async def device(self, spec: VolumeSpec) -> DeviceMount | None:
        return None

    async def check_attached(self, spec: VolumeSpec) -> None:
        return None

    async def is_exhausted(self, spec: VolumeSpec) -> bool:
        return False

    async def mount_device(self, spec: VolumeSpec, device: DeviceMount) -> None:
        return None

    async def unmount_device(self, device: DeviceMount) -> None:
        return None

    def device_on_disk(self, uid: str, inner: str) -> DeviceMount | None:
        return None

    def devices_on_disk(self) -> Sequence[DeviceMount]:
        return ()
