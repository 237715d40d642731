"""Pure functions for CSI volumes: names, pod information, ownership, error codes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from sampan.api.types.storage_v1 import CSIDriver
from sampan.kubelet.plugin_registry.calls import Message
from sampan.kubelet.volumes.contract import (
    DriverUsage,
    ExpansionRefused,
    ExpansionUnknown,
    VolumeInUse,
    VolumeOperationError,
    VolumeSpec,
)

PERSISTENT, EPHEMERAL = "Persistent", "Ephemeral"
PREFIX = "csi.storage.k8s.io"
_TRANSIENT_CODES = ("Canceled", "Cancelled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted")
_FINAL_CODES = ("InvalidArgument", "OutOfRange", "NotFound")
_BYTES, _INODES = 1, 2


def attachment_name(handle: str, driver: str, node: str) -> str:
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def inline_handle(spec: VolumeSpec) -> str:
    return f"csi-{hashlib.sha256(f'{spec.pod.metadata.uid}{spec.outer}'.encode()).hexdigest()}"


def pod_info(spec: VolumeSpec) -> dict[str, str]:
    meta = spec.pod.metadata
    return {
        f"{PREFIX}/pod.name": meta.name,
        f"{PREFIX}/pod.namespace": meta.namespace,
        f"{PREFIX}/pod.uid": meta.uid,
        f"{PREFIX}/serviceAccount.name": spec.pod.spec.serviceAccountName,
        f"{PREFIX}/ephemeral": "true" if lifecycle_mode(spec) == EPHEMERAL else "false",
    }


def applies_fs_group(spec: VolumeSpec, info: CSIDriver | None, is_read_only: bool) -> bool:
    """Whether the kubelet applies fsGroup to the volume. Pure."""
    policy = (info.spec.fsGroupPolicy if info is not None else None) or "ReadWriteOnceWithFSType"
    if spec.security.fsGroup is None or policy == "None" or is_read_only:
        return False
    if policy == "File":
        return True
    source = spec.source.csi or spec.volume.csi
    if source is None or not source.fsType:
        return False
    return spec.persistent is None or any(
        mode in ("ReadWriteOnce", "ReadWriteOncePod") for mode in spec.source.accessModes
    )


def check_lifecycle_mode(info: CSIDriver | None, driver: str, mode: str) -> None:
    if info is None and mode == PERSISTENT:
        return
    prefix = f'kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "{mode}"'
    if info is None:
        raise VolumeOperationError(f"{prefix} not supported by driver {driver} (no CSIDriver object)")
    modes = info.spec.volumeLifecycleModes or [PERSISTENT]
    if mode not in modes:
        quoted_modes = " ".join(f'"{mode}"' for mode in modes)
        raise VolumeOperationError(f"{prefix} not supported by driver {driver} (only supports [{quoted_modes}])")


def expansion_error(code: str, text: str) -> VolumeOperationError:
    """Return the error for a driver's failure to expand a volume. Pure."""
    if code in _TRANSIENT_CODES:
        return ExpansionUnknown(f"Expander.NodeExpand failed to expand the volume : {text}")
    if code == "FailedPrecondition":
        return VolumeInUse(f"Expander.NodeExpand failed to expand the volume : {text}")
    if code in _FINAL_CODES:
        return ExpansionRefused(f"Expander.NodeExpand failed to expand the volume {text}")
    return VolumeOperationError(f"Expander.NodeExpand failed to expand the volume : {text}")


def driver_usage(stats: Message) -> DriverUsage:
    """Convert the volume statistics of a driver. Pure."""
    units = {item.unit: item for item in stats.usage}
    of_bytes, of_inodes = units.get(_BYTES), units.get(_INODES)
    usage = DriverUsage()
    if of_bytes is not None:
        usage = replace(
            usage, used_bytes=of_bytes.used, capacity_bytes=of_bytes.total, available_bytes=of_bytes.available
        )
    if of_inodes is not None:
        usage = replace(usage, used_inodes=of_inodes.used, inodes=of_inodes.total, free_inodes=of_inodes.available)
    return usage


def lifecycle_mode(spec: VolumeSpec) -> str:
    return PERSISTENT if spec.persistent is not None else EPHEMERAL
