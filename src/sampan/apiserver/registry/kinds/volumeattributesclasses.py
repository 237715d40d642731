"""VolumeAttributesClass: named mutable attributes of volumes."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.storage_v1 import VolumeAttributesClass
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.volumes.classes import validate_parameter, validate_provisioner
from sampan.apiserver.tables.columns import AGE, NAME


class VolumeAttributesClassStrategy(Strategy):
    return_deleted_object = True
    columns = (
        NAME,
        Column("DriverName", lambda attributes_class, now: attributes_class.driverName, field="driverName"),
        AGE,
    )

    def validate_create(self, ctx: Context, obj: VolumeAttributesClass) -> Iterable[FieldError]:
        yield from validate_provisioner(obj.driverName, "driverName")
        yield from validate_parameter(obj.parameters, "parameters")
        if not obj.parameters:
            yield FieldError.required("parameters", "must contain at least one key/value pair")

    def validate_update(
        self, ctx: Context, obj: VolumeAttributesClass, old: VolumeAttributesClass
    ) -> Iterable[FieldError]:
        for field in ("driverName", "parameters"):
            if getattr(obj, field) != getattr(old, field):
                yield FieldError.forbidden(field, f"updates to {field} are forbidden.")
        yield from self.validate_create(ctx, obj)


BEHAVIOR = ResourceBehavior(strategy=VolumeAttributesClassStrategy())
