"""VolumeAttachment: the intent to attach a volume to a node, and its status."""

from collections.abc import Iterable

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.storage_v1 import (
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentStatus,
    VolumeError,
)
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_dns_subdomain
from sampan.apiserver.registry.volumes.spec import default_sources, validate_inline_volume_spec
from sampan.apiserver.tables.columns import AGE, NAME

_MAX_METADATA_BYTES, _MAX_MESSAGE_LENGTH = 256 * 1024, 1024
_ONE_SOURCE_ERROR = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


class VolumeAttachmentStrategy(Strategy):
    return_deleted_object = True
    allow_unconditional_update = False
    columns = (
        NAME,
        Column("Attacher", lambda attachment, now: attachment.spec.attacher, format="name", field="spec.attacher"),
        Column(
            "PV",
            lambda attachment, now: attachment.spec.source.persistentVolumeName or "",
            field="spec.source.persistentVolumeName",
        ),
        Column("Node", lambda attachment, now: attachment.spec.nodeName, field="spec.nodeName"),
        Column("Attached", lambda attachment, now: attachment.status.attached, type="boolean", field="status.attached"),
        AGE,
    )

    def default(self, obj: VolumeAttachment) -> None:
        if obj.spec.source.inlineVolumeSpec is not None:
            default_sources(obj.spec.source.inlineVolumeSpec)

    def prepare_for_create(self, ctx: Context, obj: VolumeAttachment) -> None:
        obj.status = VolumeAttachmentStatus()

    def validate_create(self, ctx: Context, obj: VolumeAttachment) -> Iterable[FieldError]:
        return _validate_attachment(obj)

    def prepare_for_update(self, ctx: Context, obj: VolumeAttachment, old: VolumeAttachment) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: VolumeAttachment, old: VolumeAttachment) -> Iterable[FieldError]:
        return _validate_attachment(obj)


class VolumeAttachmentStatusStrategy(StatusStrategy):
    keeps_metadata = True

    def validate_update(self, ctx: Context, obj: VolumeAttachment, old: VolumeAttachment) -> Iterable[FieldError]:
        return _validate_attachment(obj)


def _validate_attachment(attachment: VolumeAttachment) -> FieldErrors:
    spec, status = attachment.spec, attachment.status
    yield from _validate_source(spec.source, "spec.source")
    yield from validate_dns_subdomain(spec.nodeName, "spec.nodeName")
    size = sum(names.size(key) + names.size(value) for key, value in status.attachmentMetadata.items())
    if size > _MAX_METADATA_BYTES:
        yield FieldError.too_long("status.attachmentMetadata", _MAX_METADATA_BYTES)
    yield from _validate_volume_error(status.attachError, "status.attachError")
    yield from _validate_volume_error(status.detachError, "status.detachError")
    if spec.source.persistentVolumeName is not None:
        yield from validate_dns_subdomain(spec.source.persistentVolumeName, "spec.source.persistentVolumeName")


def _validate_source(source: VolumeAttachmentSource, path: str) -> FieldErrors:
    volume, inline = source.persistentVolumeName, source.inlineVolumeSpec
    if volume is None and inline is None:
        yield FieldError.required(path, _ONE_SOURCE_ERROR)
    elif volume is not None and inline is not None:
        yield FieldError.forbidden(path, _ONE_SOURCE_ERROR)
    elif inline is not None:
        yield from validate_inline_volume_spec(inline, f"{path}.inlineVolumeSpec")
    elif volume == "":
        yield FieldError.required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")


def _validate_volume_error(error: VolumeError | None, path: str) -> FieldErrors:
    if error is None:
        return
    if names.size(error.message) > _MAX_MESSAGE_LENGTH:
        yield FieldError.too_long(f"{path}.message", _MAX_MESSAGE_LENGTH)
    if error.errorCode is not None and error.errorCode < 0:
        yield FieldError.invalid(f"{path}.errorCode", error.errorCode, names.out_of_range_message(0, 2**31 - 1))


_strategy = VolumeAttachmentStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": VolumeAttachmentStatusStrategy(_strategy)})
