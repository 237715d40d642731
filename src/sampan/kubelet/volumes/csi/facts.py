"""Pure functions for CSI volumes: names, pod information, ownership, error codes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from sampan.api.types.storage_v1 import CSIDriver
from sampan.kubelet.plugin_registry.calls import Message
from sampan.kubelet.volumes.contract import IsInUse, MayHaveGrown, Spec, Usage, VolumeFault, WillNotGrow

PERSISTENT, EPHEMERAL = "Persistent", "Ephemeral"
PREFIX = "csi.storage.k8s.io"
_PASSING = ("Canceled", "Cancelled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted")
_HOPELESS = ("InvalidArgument", "OutOfRange", "NotFound")
_BYTES, _INODES = 1, 2


def attachment_name(handle: str, driver: str, node: str) -> str:
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def inline_handle(spec: Spec) -> str:
    return f"csi-{hashlib.sha256(f'{spec.pod.metadata.uid}{spec.outer}'.encode()).hexdigest()}"


def pod_info(spec: Spec) -> dict[str, str]:
    meta = spec.pod.metadata
    return {
        f"{PREFIX}/pod.name": meta.name,
        f"{PREFIX}/pod.namespace": meta.namespace,
        f"{PREFIX}/pod.uid": meta.uid,
        f"{PREFIX}/serviceAccount.name": spec.pod.spec.serviceAccountName,
        f"{PREFIX}/ephemeral": "true" if life_of(spec) == EPHEMERAL else "false",
    }


def has_groups(spec: Spec, info: CSIDriver | None, is_read_only: bool) -> bool:
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


def check_life(info: CSIDriver | None, driver: str, life: str) -> None:
    if info is None and life == PERSISTENT:
        return
    start = f'kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "{life}"'
    if info is None:
        raise VolumeFault(f"{start} not supported by driver {driver} (no CSIDriver object)")
    modes = info.spec.volumeLifecycleModes or [PERSISTENT]
    if life not in modes:
        quoted_modes = " ".join(f'"{mode}"' for mode in modes)
        raise VolumeFault(f"{start} not supported by driver {driver} (only supports [{quoted_modes}])")


def growth_fault(code: str, text: str) -> VolumeFault:
    """Return the error for a driver's failure to expand a volume. Pure."""
    if code in _PASSING:
        return MayHaveGrown(f"Expander.NodeExpand failed to expand the volume : {text}")
    if code == "FailedPrecondition":
        return IsInUse(f"Expander.NodeExpand failed to expand the volume : {text}")
    if code in _HOPELESS:
        return WillNotGrow(f"Expander.NodeExpand failed to expand the volume {text}")
    return VolumeFault(f"Expander.NodeExpand failed to expand the volume : {text}")


def used(stats: Message) -> Usage:
    """Convert the volume statistics of a driver. Pure."""
    units = {item.unit: item for item in stats.usage}
    of_bytes, of_inodes = units.get(_BYTES), units.get(_INODES)
    usage = Usage()
    if of_bytes is not None:
        usage = replace(
            usage, used_bytes=of_bytes.used, capacity_bytes=of_bytes.total, available_bytes=of_bytes.available
        )
    if of_inodes is not None:
        usage = replace(usage, used_inodes=of_inodes.used, inodes=of_inodes.total, free_inodes=of_inodes.available)
    return usage


def life_of(spec: Spec) -> str:
    return PERSISTENT if spec.persistent is not None else EPHEMERAL


__all__ = ["EPHEMERAL", "PERSISTENT", "PREFIX", "attachment_name", "check_life", "growth_fault", "has_groups"]
__all__ += ["inline_handle", "life_of", "pod_info", "used"]
