"""DeviceTaintRule: adds a taint to all devices that it selects."""

from __future__ import annotations

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.resource_v1beta2 import DeviceTaintRule
from sampan.api.values import ages
from sampan.apiserver.registry.behavior import GenericStatusStrategy, GenericStrategy, ResourceBehavior
from sampan.apiserver.registry.devices.names import validate_device_taint, validate_driver_name, validate_pool_name
from sampan.apiserver.registry.strategy import Column, Context
from sampan.apiserver.registry.validation import FieldErrors, validate_conditions, validate_dns_label
from sampan.apiserver.tables.columns import AGE, NAME

_MAX_CONDITIONS = 8
_CONDITIONS = "status.conditions"


class DeviceTaintRuleStrategy(GenericStrategy):
    lenient_versions = frozenset({"v1beta2", "v1alpha3"})
    columns = (
        NAME,
        Column("Key", lambda rule, now: rule.spec.taint.key, field="spec.taint.key"),
        Column("Value", lambda rule, now: rule.spec.taint.value, field="spec.taint.value"),
        Column("Effect", lambda rule, now: rule.spec.taint.effect, field="spec.taint.effect"),
        Column(
            "TimeAdded",
            lambda rule, now: ages.age(rule.spec.taint.timeAdded, now) if rule.spec.taint.timeAdded else "",
            field="spec.taint.timeAdded",
        ),
        AGE,
    )

    def prepare_for_create(self, ctx: Context, obj: DeviceTaintRule) -> None:
        super().prepare_for_create(ctx, obj)
        obj.spec.taint.timeAdded = obj.spec.taint.timeAdded or ctx.now

    def validate_create(self, ctx: Context, obj: DeviceTaintRule) -> Iterable[FieldError]:
        return _validate_rule(obj)

    def prepare_for_update(self, ctx: Context, obj: DeviceTaintRule, old: DeviceTaintRule) -> None:
        """Set the time of a new effect, unless the client sets another time than that of the old one."""
        super().prepare_for_update(ctx, obj, old)
        taint, before = obj.spec.taint, old.spec.taint
        if taint.timeAdded is None or (taint.effect != before.effect and taint.timeAdded == before.timeAdded):
            taint.timeAdded = ctx.now

    def validate_update(self, ctx: Context, obj: DeviceTaintRule, old: DeviceTaintRule) -> Iterable[FieldError]:
        return _validate_rule(obj)


class DeviceTaintRuleStatusStrategy(GenericStatusStrategy):
    def validate_update(self, ctx: Context, obj: DeviceTaintRule, old: DeviceTaintRule) -> Iterable[FieldError]:
        conditions = obj.status.conditions
        yield from validate_conditions(conditions, _CONDITIONS)
        if len(conditions) > _MAX_CONDITIONS:
            yield FieldError.too_many(_CONDITIONS, len(conditions), _MAX_CONDITIONS)


def _validate_rule(rule: DeviceTaintRule) -> FieldErrors:
    selector, path = rule.spec.deviceSelector, "spec.deviceSelector"
    if selector is not None:
        if selector.driver is not None:
            yield from validate_driver_name(selector.driver, f"{path}.driver")
        if selector.pool is not None:
            yield from validate_pool_name(selector.pool, f"{path}.pool")
        if selector.device is not None:
            yield from validate_dns_label(selector.device, f"{path}.device")
    yield from validate_device_taint(rule.spec.taint, "spec.taint")


_strategy = DeviceTaintRuleStrategy(has_status=True, allow_unconditional_update=False, counts_generation=True)
BEHAVIOR = ResourceBehavior(
    strategy=_strategy, views={"status": DeviceTaintRuleStatusStrategy(_strategy, keeps_metadata=True)}
)
