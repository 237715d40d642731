"""Default values of volumes."""

from collections.abc import Callable
from typing import Any

from sampan.api.types.core_v1 import (
    AzureDiskVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    ISCSIVolumeSource,
    ProjectedVolumeSource,
    RBDVolumeSource,
    ScaleIOVolumeSource,
    Volume,
)
from sampan.apiserver.registry.podspec import images
from sampan.apiserver.registry.podspec.resources import round_up

FILE_MODE = 0o644
_TOKEN_LIFE_S = 3600

SOURCES = tuple(name for name in Volume.__struct_fields__ if name != "name")


def default_volume(volume: Volume) -> None:
    is_empty = True
    for name in SOURCES:
        source = getattr(volume, name)
        if source is not None:
            is_empty = False
            default = _DEFAULTS.get(name)
            if default is not None:
                default(source)
    if is_empty:
        volume.emptyDir = EmptyDirVolumeSource()


def default_source(name: str, source: Any) -> None:
    """Apply defaults to a volume source of a pod or a PersistentVolume. `name` is the name of its field."""
    default = _DEFAULTS.get(name)
    if default is not None:
        default(source)


def _default_mode(source: Any) -> None:
    if source.defaultMode is None:
        source.defaultMode = FILE_MODE


def _default_host_path(source: HostPathVolumeSource) -> None:
    if source.type is None:
        source.type = ""


def _default_iscsi(source: ISCSIVolumeSource) -> None:
    source.iscsiInterface = source.iscsiInterface or "default"


def _default_rbd(source: RBDVolumeSource) -> None:
    source.pool = source.pool or "rbd"
    source.user = source.user or "admin"
    source.keyring = source.keyring or "/etc/ceph/keyring"


def _default_azure_disk(source: AzureDiskVolumeSource) -> None:
    if source.cachingMode is None:
        source.cachingMode = "ReadWrite"
    if source.fsType is None:
        source.fsType = "ext4"
    if source.readOnly is None:
        source.readOnly = False
    if source.kind is None:
        source.kind = "Shared"


def _default_scale_io(source: ScaleIOVolumeSource) -> None:
    source.storageMode = source.storageMode or "ThinProvisioned"
    source.fsType = source.fsType or "xfs"


def _default_image(source: ImageVolumeSource) -> None:
    source.pullPolicy = source.pullPolicy or images.pull_policy(source.reference)


def _default_downward(source: DownwardAPIVolumeSource) -> None:
    _default_mode(source)
    _default_files(source.items)


def _default_files(files: list[DownwardAPIVolumeFile]) -> None:
    for file in files:
        if file.fieldRef is not None and not file.fieldRef.apiVersion:
            file.fieldRef.apiVersion = "v1"


def _default_projected(source: ProjectedVolumeSource) -> None:
    _default_mode(source)
    for part in source.sources or ():
        if part.downwardAPI is not None:
            _default_files(part.downwardAPI.items)
        token = part.serviceAccountToken
        if token is not None and token.expirationSeconds is None:
            token.expirationSeconds = _TOKEN_LIFE_S


def _default_ephemeral(source: EphemeralVolumeSource) -> None:
    template = source.volumeClaimTemplate
    if template is None:
        return
    if template.spec.volumeMode is None:
        template.spec.volumeMode = "Filesystem"
    round_up(template.spec.resources.limits)
    round_up(template.spec.resources.requests)


_DEFAULTS: dict[str, Callable[[Any], None]] = {
    "hostPath": _default_host_path,
    "secret": _default_mode,
    "configMap": _default_mode,
    "iscsi": _default_iscsi,
    "rbd": _default_rbd,
    "azureDisk": _default_azure_disk,
    "scaleIO": _default_scale_io,
    "image": _default_image,
    "downwardAPI": _default_downward,
    "projected": _default_projected,
    "ephemeral": _default_ephemeral,
}
