"""LimitRange: limits and defaults for the resources of single pods, containers and claims."""

import uuid
from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import LimitRange, LimitRangeItem
from sampan.api.values.quantity import Quantity, parse
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec import resources
from sampan.apiserver.registry.podspec.resources import validate_container_resource_name, validate_resource_name
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_qualified_name

_STANDARD = ("Container", "PersistentVolumeClaim", "Pod")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_MIN_RATIO = parse("1")


class LimitRangeStrategy(Strategy):
    allow_create_on_update = True

    def default(self, obj: LimitRange) -> None:
        obj.spec.limits = obj.spec.limits or None
        for item in obj.spec.limits or ():
            if item.type == "Container":
                _default_container(item)
            for field in _AMOUNTS:
                resources.round_up(getattr(item, field))

    def prepare_for_create(self, ctx: Context, obj: LimitRange) -> None:
        if not obj.metadata.name:
            obj.metadata.name = str(uuid.uuid4())

    def validate_create(self, ctx: Context, obj: LimitRange) -> Iterable[FieldError]:
        types: set[str] = set()
        for index, item in enumerate(obj.spec.limits or ()):
            yield from _validate_item(item, types, f"spec.limits[{index}]")

    def validate_update(self, ctx: Context, obj: LimitRange, old: LimitRange) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


def _default_container(item: LimitRangeItem) -> None:
    """Default the limit to the maximum, and the request to the limit, else to the minimum."""
    item.default = {**item.max, **item.default}
    item.defaultRequest = {**item.min, **item.default, **item.defaultRequest}


def _validate_item(item: LimitRangeItem, types: set[str], path: str) -> FieldErrors:
    yield from _validate_type(item.type, f"{path}.type")
    if item.type in types:
        yield FieldError.duplicate(f"{path}.type", item.type)
    types.add(item.type)
    for field in ("max", "min"):
        yield from _validate_name(item, field, path)
    for field in ("default", "defaultRequest"):
        if item.type != "Pod":
            yield from _validate_name(item, field, path)
        elif getattr(item, field):
            yield FieldError.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and "storage" not in item.min and "storage" not in item.max:
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield FieldError.required(f"{path}.limits", text)
    yield from _validate_name(item, "maxLimitRequestRatio", path)
    fields = [field for field in _AMOUNTS if item.type != "Pod" or not field.startswith("default")]
    for name in sorted({name for field in fields for name in getattr(item, field)}):
        quantities = {field: parse(value) for field in fields if (value := getattr(item, field).get(name)) is not None}
        yield from _validate_order(name, quantities, path)


def _validate_type(kind: str, path: str) -> FieldErrors:
    errors = list(validate_qualified_name(kind, path))
    yield from errors
    if not errors and "/" not in kind and kind not in _STANDARD:
        yield FieldError.invalid(path, kind, "must be a standard limit type or fully qualified")


def _validate_name(item: LimitRangeItem, field: str, path: str) -> FieldErrors:
    check = validate_container_resource_name if item.type in ("Pod", "Container") else validate_resource_name
    for name in sorted(getattr(item, field)):
        yield from check(name, f"{path}.{field}[{name}]")


def _validate_order(name: str, bounds: dict[str, Quantity], path: str) -> FieldErrors:
    """Yield errors for values in the wrong order, such as a minimum above the maximum.

    Each rule consists of the lower and the upper field, the field of the error and of its value, and the words for
    both.
    """
    for low, high, field, shown, low_word, high_word in (
        ("min", "max", "min", "min", "min value", "max value"),
        ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
        ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "defaultRequest",
            "default request value",
            "default limit value",
        ),
        ("min", "default", "default", "min", "min value", "default value"),
        ("default", "max", "default", "max", "default value", "max value"),
    ):
        if low in bounds and high in bounds and bounds[low] > bounds[high]:
            text = f"{low_word} {bounds[low]} is greater than {high_word} {bounds[high]}"
            yield FieldError.invalid(f"{path}.{field}[{name}]", str(bounds[shown]), text)
    if "maxLimitRequestRatio" in bounds:
        yield from _validate_ratio(bounds, f"{path}.maxLimitRequestRatio[{name}]")
    if not resources.may_overcommit(name) and {"default", "defaultRequest"} <= bounds.keys():
        limit, request = bounds["default"], bounds["defaultRequest"]
        if limit != request:
            text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
            yield FieldError.invalid(f"{path}.defaultRequest[{name}]", str(request), text)


def _validate_ratio(bounds: dict[str, Quantity], path: str) -> FieldErrors:
    ratio = bounds["maxLimitRequestRatio"]
    if ratio < _MIN_RATIO:
        yield FieldError.invalid(path, str(ratio), f"ratio {ratio} is less than 1")
    if "min" not in bounds or "max" not in bounds or not bounds["min"].milli_value():
        return
    maximum = bounds["max"].milli_value() / bounds["min"].milli_value()
    if ratio.milli_value() / 1000 > maximum:
        yield FieldError.invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {maximum:f}")


BEHAVIOR = ResourceBehavior(strategy=LimitRangeStrategy())
