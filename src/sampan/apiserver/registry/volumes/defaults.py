"""Default values of PersistentVolume specs."""

from sampan.api.types.core_v1 import PersistentVolumeSpec
from sampan.apiserver.registry.podspec.amounts import round_up
from sampan.apiserver.registry.podspec.volume_defaults import default_source

_WITH_DEFAULTS = ("hostPath", "rbd", "iscsi", "azureDisk", "scaleIO")


def default_sources(spec: PersistentVolumeSpec) -> None:
    round_up(spec.capacity)
    for name in _WITH_DEFAULTS:
        source = getattr(spec, name)
        if source is not None:
            default_source(name, source)


def default_volume(spec: PersistentVolumeSpec) -> None:
    default_sources(spec)
    spec.persistentVolumeReclaimPolicy = spec.persistentVolumeReclaimPolicy or "Retain"
    if spec.volumeMode is None:
        spec.volumeMode = "Filesystem"
