"""PersistentVolume: storage with a lifecycle independent of pods."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeStatus
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.warnings import node_term_warnings
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.registry.volumes.classes import OLD_CLASS, OLD_CLASS_WARNING, class_of, modes_in_short
from sampan.apiserver.registry.volumes.spec import (
    default_volume,
    has_bad_affinity,
    validate_persistent_volume_spec,
    validate_persistent_volume_update,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_PENDING = "Pending"
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_ANNOTATIONS = {
    OLD_CLASS: OLD_CLASS_WARNING,
    _MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_MOUNTED = (
    *("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder"),
    *("cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
)
"""Volume sources whose mount options may be in an annotation."""
_OLD_SOURCES = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def _phase(volume: PersistentVolume, now: float) -> str:
    return volume.status.phase if volume.metadata.deletionTimestamp is None else "Terminating"


def _claim(volume: PersistentVolume, now: float) -> str:
    claim = volume.spec.claimRef
    return f"{claim.namespace}/{claim.name}" if claim is not None else ""


def _attributes_class(volume: PersistentVolume, now: float) -> str:
    name = volume.spec.volumeAttributesClassName
    return name if name is not None else cells.UNSET


_COLUMNS = (
    NAME,
    Column("Capacity", lambda volume, now: volume.spec.capacity.get("storage", "0"), field="spec.capacity"),
    Column("Access Modes", lambda volume, now: modes_in_short(volume.spec.accessModes), field="spec.accessModes"),
    Column(
        "Reclaim Policy",
        lambda volume, now: volume.spec.persistentVolumeReclaimPolicy,
        field="spec.persistentVolumeReclaimPolicy",
    ),
    Column("Status", _phase, field="status.phase"),
    Column("Claim", _claim, field="spec.claimRef"),
    Column("StorageClass", lambda volume, now: class_of(volume), description="StorageClass of the pv"),
    Column("VolumeAttributesClass", _attributes_class, description="VolumeAttributesClass of the pv"),
    Column("Reason", lambda volume, now: volume.status.reason, field="status.reason"),
    AGE,
    Column("VolumeMode", lambda volume, now: volume.spec.volumeMode or cells.UNSET, field="spec.volumeMode", wide=True),
)


class PersistentVolumeStrategy(Strategy):
    columns = _COLUMNS
    return_deleted_object = True

    def default(self, obj: PersistentVolume) -> None:
        obj.status.phase = obj.status.phase or _PENDING
        default_volume(obj.spec)

    def prepare_for_create(self, ctx: Context, obj: PersistentVolume) -> None:
        obj.status = PersistentVolumeStatus(phase=_PENDING, lastPhaseTransitionTime=ctx.now)

    def validate_create(self, ctx: Context, obj: PersistentVolume) -> Iterable[FieldError]:
        yield from validate_persistent_volume_spec(obj.spec, obj.metadata.name, "spec")
        yield from _validate_mount_option(obj)

    def prepare_for_update(self, ctx: Context, obj: PersistentVolume, old: PersistentVolume) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: PersistentVolume, old: PersistentVolume) -> Iterable[FieldError]:
        allow_bad_values = has_bad_affinity(old.spec)
        yield from validate_persistent_volume_spec(
            obj.spec, obj.metadata.name, "spec", allow_bad_values=allow_bad_values
        )
        yield from _validate_mount_option(obj)
        yield from validate_persistent_volume_update(obj.spec, old.spec)

    def warnings(self, ctx: Context, obj: PersistentVolume, old: PersistentVolume | None) -> Iterable[str]:
        for key, text in _ANNOTATIONS.items():
            if key in obj.metadata.annotations:
                yield f"metadata.annotations[{key}]: {text}"
        if obj.spec.persistentVolumeReclaimPolicy == "Recycle":
            text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic"
            yield f"spec.persistentVolumeReclaimPolicy: {text} provisioning."
        required = obj.spec.nodeAffinity.required if obj.spec.nodeAffinity is not None else None
        for index, term in enumerate((required.nodeSelectorTerms or ()) if required is not None else ()):
            yield from node_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
        for source, text in _OLD_SOURCES.items():
            if getattr(obj.spec, source) is not None:
                yield f"spec.{'storageOS' if source == 'storageos' else source}: {text}"


def _validate_mount_option(volume: PersistentVolume) -> FieldErrors:
    if _MOUNT_OPTIONS in volume.metadata.annotations and all(getattr(volume.spec, name) is None for name in _MOUNTED):
        text = "may not specify mount options for this volume type"
        yield FieldError.forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", text)


class PersistentVolumeStatusStrategy(StatusStrategy):
    def prepare_for_update(self, ctx: Context, obj: PersistentVolume, old: PersistentVolume) -> None:
        super().prepare_for_update(ctx, obj, old)
        new, before = obj.status, old.status
        if new.phase == before.phase:
            new.lastPhaseTransitionTime = new.lastPhaseTransitionTime or before.lastPhaseTransitionTime
        elif new.lastPhaseTransitionTime in (None, before.lastPhaseTransitionTime):
            new.lastPhaseTransitionTime = ctx.now


_strategy = PersistentVolumeStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": PersistentVolumeStatusStrategy(_strategy)})
