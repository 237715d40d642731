"""VolumeAttachment: the intent to attach a volume to a node, and its status."""

from collections.abc import Iterable

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.storage_v1 import (
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentStatus,
    VolumeError,
)
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.podspec.formats import Faults, dns_subdomain, fixed
from sampan.apiserver.registry.podspec.storage_volumes import csi_driver_name
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.volumes.defaults import default_sources
from sampan.apiserver.registry.volumes.spec import inline_faults
from sampan.apiserver.tables.columns import AGE, NAME

_LARGEST, _LONGEST_MESSAGE = 256 * 1024, 1024
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


class VolumeAttachmentStrategy(Strategy):
    returns_deleted = True
    unconditional_update = False
    validates_whole = True
    columns = (
        NAME,
        Column("Attacher", lambda found, now: found.spec.attacher, format="name", field="spec.attacher"),
        Column(
            "PV",
            lambda found, now: found.spec.source.persistentVolumeName or "",
            field="spec.source.persistentVolumeName",
        ),
        Column("Node", lambda found, now: found.spec.nodeName, field="spec.nodeName"),
        Column("Attached", lambda found, now: found.status.attached, type="boolean", field="status.attached"),
        AGE,
    )

    def default(self, obj: VolumeAttachment) -> None:
        if obj.spec.source.inlineVolumeSpec is not None:
            default_sources(obj.spec.source.inlineVolumeSpec)

    def prepare_create(self, ctx: Context, obj: VolumeAttachment) -> None:
        obj.status = VolumeAttachmentStatus()

    def validate_create(self, ctx: Context, obj: VolumeAttachment) -> Iterable[FieldError]:
        return _faults(obj)

    def prepare_update(self, ctx: Context, obj: VolumeAttachment, old: VolumeAttachment) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: VolumeAttachment, old: VolumeAttachment) -> Iterable[FieldError]:
        return _change_faults(obj, old)


class VolumeAttachmentStatusStrategy(StatusStrategy):
    validates_whole = True

    def prepare_update(self, ctx: Context, obj: VolumeAttachment, old: VolumeAttachment) -> None:
        super().prepare_update(ctx, obj, old)
        metadata.keep_all_but_managed_fields(obj.metadata, old.metadata)

    def validate_update(self, ctx: Context, obj: VolumeAttachment, old: VolumeAttachment) -> Iterable[FieldError]:
        return _change_faults(obj, old)


def _change_faults(found: VolumeAttachment, old: VolumeAttachment) -> Faults:
    yield from _faults(found)
    yield from fixed(found.spec, old.spec, "spec")


def _faults(found: VolumeAttachment) -> Faults:
    spec, status = found.spec, found.status
    yield from csi_driver_name(spec.attacher, "spec.attacher")
    yield from _source_faults(spec.source, "spec.source")
    yield from dns_subdomain(spec.nodeName, "spec.nodeName")
    size = sum(names.size(key) + names.size(value) for key, value in status.attachmentMetadata.items())
    if size > _LARGEST:
        yield FieldError.too_long("status.attachmentMetadata", _LARGEST)
    yield from _error_faults(status.attachError, "status.attachError")
    yield from _error_faults(status.detachError, "status.detachError")
    if spec.source.persistentVolumeName is not None:
        yield from dns_subdomain(spec.source.persistentVolumeName, "spec.source.persistentVolumeName")


def _source_faults(source: VolumeAttachmentSource, at: str) -> Faults:
    volume, inline = source.persistentVolumeName, source.inlineVolumeSpec
    if volume is None and inline is None:
        yield FieldError.required(at, _ONE_SOURCE)
    elif volume is not None and inline is not None:
        yield FieldError.forbidden(at, _ONE_SOURCE)
    elif inline is not None:
        yield from inline_faults(inline, f"{at}.inlineVolumeSpec")
    elif volume == "":
        yield FieldError.required(f"{at}.persistentVolumeName", "must specify non empty persistentVolumeName")


def _error_faults(error: VolumeError | None, at: str) -> Faults:
    if error is None:
        return
    if names.size(error.message) > _LONGEST_MESSAGE:
        yield FieldError.too_long(f"{at}.message", _LARGEST)  # kube-apiserver reports the wrong limit
    if error.errorCode is not None and error.errorCode < 0:
        yield FieldError.invalid(f"{at}.errorCode", error.errorCode, names.out_of_range(0, 2**31 - 1))


_strategy = VolumeAttachmentStrategy()
BEHAVIOUR = ResourceBehaviour(strategy=_strategy, views={"status": VolumeAttachmentStatusStrategy(_strategy)})
