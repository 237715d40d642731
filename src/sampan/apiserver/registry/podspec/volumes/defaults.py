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


def _mode(source: Any) -> None:
    if source.defaultMode is None:
        source.defaultMode = FILE_MODE


def _host_path(source: HostPathVolumeSource) -> None:
    if source.type is None:
        source.type = ""


def _iscsi(source: ISCSIVolumeSource) -> None:
    source.iscsiInterface = source.iscsiInterface or "default"


def _rbd(source: RBDVolumeSource) -> None:
    source.pool = source.pool or "rbd"
    source.user = source.user or "admin"
    source.keyring = source.keyring or "/etc/ceph/keyring"


def _azure_disk(source: AzureDiskVolumeSource) -> None:
    if source.cachingMode is None:
        source.cachingMode = "ReadWrite"
    if source.fsType is None:
        source.fsType = "ext4"
    if source.readOnly is None:
        source.readOnly = False
    if source.kind is None:
        source.kind = "Shared"


def _scale_io(source: ScaleIOVolumeSource) -> None:
    source.storageMode = source.storageMode or "ThinProvisioned"
    source.fsType = source.fsType or "xfs"


def _image(source: ImageVolumeSource) -> None:
    source.pullPolicy = source.pullPolicy or images.pull_policy(source.reference)


def _downward(source: DownwardAPIVolumeSource) -> None:
    _mode(source)
    _files(source.items)


def _files(files: list[DownwardAPIVolumeFile]) -> None:
    for file in files:
        if file.fieldRef is not None and not file.fieldRef.apiVersion:
            file.fieldRef.apiVersion = "v1"


def _projected(source: ProjectedVolumeSource) -> None:
    _mode(source)
    for part in source.sources or ():
        if part.downwardAPI is not None:
            _files(part.downwardAPI.items)
        token = part.serviceAccountToken
        if token is not None and token.expirationSeconds is None:
            token.expirationSeconds = _TOKEN_LIFE_S


def _ephemeral(source: EphemeralVolumeSource) -> None:
    template = source.volumeClaimTemplate
    if template is None:
        return
    if template.spec.volumeMode is None:
        template.spec.volumeMode = "Filesystem"
    round_up(template.spec.resources.limits)
    round_up(template.spec.resources.requests)


_DEFAULTS: dict[str, Callable[[Any], None]] = {
    "hostPath": _host_path,
    "secret": _mode,
    "configMap": _mode,
    "iscsi": _iscsi,
    "rbd": _rbd,
    "azureDisk": _azure_disk,
    "scaleIO": _scale_io,
    "image": _image,
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
}
