"""ResourceSlice: devices that a driver publishes."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.gotext import quote
from sampan.api.types.resource_v1 import ResourceSlice
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.devices.resource_slices import validate_resource_slice_spec
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME


class ResourceSliceStrategy(Strategy):
    return_deleted_object = True
    counts_generation = True
    columns = (
        NAME,
        Column("Node", lambda resource_slice, now: resource_slice.spec.nodeName or "", field="spec.nodeName"),
        Column("Driver", lambda resource_slice, now: resource_slice.spec.driver, field="spec.driver"),
        Column("Pool", lambda resource_slice, now: resource_slice.spec.pool.name, field="spec.pool.name"),
        AGE,
    )

    def prepare_for_create(self, ctx: Context, obj: ResourceSlice) -> None:
        """Set timeAdded of new taints."""
        for device in obj.spec.devices:
            for taint in device.taints:
                taint.timeAdded = taint.timeAdded or ctx.now

    def prepare_for_update(self, ctx: Context, obj: ResourceSlice, old: ResourceSlice) -> None:
        self.prepare_for_create(ctx, obj)

    def validate_create(self, ctx: Context, obj: ResourceSlice) -> Iterable[FieldError]:
        return validate_resource_slice_spec(obj.spec, None, "spec")

    def validate_update(self, ctx: Context, obj: ResourceSlice, old: ResourceSlice) -> Iterable[FieldError]:
        return validate_resource_slice_spec(obj.spec, old.spec, "spec")

    def warnings(self, ctx: Context, obj: ResourceSlice, old: ResourceSlice | None) -> Iterable[str]:
        driver = obj.spec.driver
        if driver != driver.lower():
            text = f"driver names should be lowercase; {quote(driver)} contains uppercase characters"
            yield f"spec.driver: {text}"


BEHAVIOR = ResourceBehavior(strategy=ResourceSliceStrategy())
