"""DeviceTaintRule: adds a taint to all devices that it selects."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.resource_v1beta2 import DeviceTaintRule
from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior
from sampan.apiserver.registry.devices.names import validate_device_taint, validate_driver_name, validate_pool_name
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.registry.validation import validate_dns_label


class DeviceTaintRuleStrategy(GenericStrategy):
    def prepare_for_create(self, ctx: Context, obj: DeviceTaintRule) -> None:
        super().prepare_for_create(ctx, obj)
        obj.spec.taint.timeAdded = obj.spec.taint.timeAdded or ctx.now

    def prepare_for_update(self, ctx: Context, obj: DeviceTaintRule, old: DeviceTaintRule) -> None:
        """Set timeAdded if it is missing, or if the effect has changed and the client has not set another time."""
        super().prepare_for_update(ctx, obj, old)
        taint, before = obj.spec.taint, old.spec.taint
        if taint.timeAdded is None or (taint.effect != before.effect and taint.timeAdded == before.timeAdded):
            taint.timeAdded = ctx.now

    def validate_create(self, ctx: Context, obj: DeviceTaintRule) -> Iterable[FieldError]:
        selector, path = obj.spec.deviceSelector, "spec.deviceSelector"
        if selector is not None:
            if selector.driver is not None:
                yield from validate_driver_name(selector.driver, f"{path}.driver")
            if selector.pool is not None:
                yield from validate_pool_name(selector.pool, f"{path}.pool")
            if selector.device is not None:
                yield from validate_dns_label(selector.device, f"{path}.device")
        yield from validate_device_taint(obj.spec.taint, "spec.taint")  # type: ignore[arg-type]

    def validate_update(self, ctx: Context, obj: DeviceTaintRule, old: DeviceTaintRule) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


BEHAVIOR = status_behavior(
    DeviceTaintRuleStrategy(has_status=True, return_deleted_object=True, counts_generation=True), keeps_metadata=True
)
