"""Validation of resource slices: the devices that drivers publish, and the request policies of consumable capacity."""

import re
from collections.abc import Mapping

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.resource_v1 import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    ResourcePool,
    ResourceSliceSpec,
)
from sampan.api.values.quantity import Quantity, parse
from sampan.apiserver.registry.devices.claim_status import validate_binding_conditions
from sampan.apiserver.registry.devices.names import (
    MAX_QUALIFIED_NAME_LENGTH,
    validate_device_qualified_name,
    validate_device_taint,
    validate_driver_name,
    validate_items,
    validate_map,
    validate_pool_name,
    validate_set,
    validate_slice,
)
from sampan.apiserver.registry.podspec.node_selection import validate_node_selector
from sampan.apiserver.registry.validation import (
    NEGATIVE,
    FieldErrors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_immutable,
)

_MAX_VALID_VALUES = 10
_MAX_INT64 = parse(str(2**63 - 1))
_TOO_LARGE = f"must not be larger than {2**63 - 1}"


def validate_multi_allocatable_capacity(capacity: DeviceCapacity, field_path: str) -> FieldErrors:
    policy, path = capacity.requestPolicy, f"{field_path}.requestPolicy"
    if policy is None:
        return
    if policy.validValues and policy.validRange is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield FieldError.forbidden(path, text)
    elif policy.validValues or policy.validRange is not None:
        yield from _validate_request_policy(policy, parse(capacity.value), path)


def validate_single_allocatable_capacity(capacity: DeviceCapacity, path: str) -> FieldErrors:
    if capacity.requestPolicy is not None:
        yield FieldError.forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")


def _validate_request_policy(policy: CapacityRequestPolicy, whole: Quantity, path: str) -> FieldErrors:
    name = "validValues" if policy.validValues else "validRange"
    if policy.default is None:
        yield FieldError.required(f"{path}.default", f"required when {name} is defined")
    elif policy.validRange is None:
        yield from _validate_valid_values(policy.validValues, parse(policy.default), whole, f"{path}.validValues")
    else:
        yield from _validate_valid_range(policy.validRange, parse(policy.default), whole, f"{path}.validRange")


def _validate_valid_values(values: list[str], default: Quantity, whole: Quantity, path: str) -> FieldErrors:
    def validate_size(text: str, item_path: str) -> FieldErrors:
        if parse(text) > whole:
            yield FieldError.invalid(item_path, text, f"option is larger than capacity value: {whole}")

    for index in range(1, len(values)):
        if parse(values[index - 1]) > parse(values[index]):
            yield FieldError.invalid(f"{path}[{index}]", values[index], "values must be sorted in ascending order")
    yield from validate_set(values, _MAX_VALID_VALUES, validate_size, lambda text: str(parse(text).value()), path)
    if len(values) > _MAX_VALID_VALUES or all(parse(text) != default for text in values):
        yield FieldError.invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _validate_valid_range(
    valid_range: CapacityRequestPolicyRange, default: Quantity, whole: Quantity, path: str
) -> FieldErrors:
    if valid_range.min is None:
        yield FieldError.required(f"{path}.min", "required when validRange is defined")
        return
    minimum, maximum = parse(valid_range.min), parse(valid_range.max) if valid_range.max is not None else None
    if minimum > whole:
        yield FieldError.invalid(f"{path}.min", str(minimum), f"min is larger than capacity value: {whole}")
    if default < minimum:
        yield FieldError.invalid(f"{path}.default", str(default), f"default is less than min: {minimum}")
    if maximum is not None:
        if minimum > maximum:
            yield FieldError.invalid(f"{path}.max", str(minimum), f"min is larger than max: {maximum}")
        if maximum > whole:
            yield FieldError.invalid(f"{path}.max", str(maximum), f"max is larger than capacity value: {whole}")
        if default > maximum:
            yield FieldError.invalid(f"{path}.default", str(default), f"default is more than max: {maximum}")
    if valid_range.step is not None:
        yield from _validate_steps(parse(valid_range.step), minimum, maximum, default, whole, path)


def _validate_steps(
    step: Quantity, minimum: Quantity, maximum: Quantity | None, default: Quantity, whole: Quantity, path: str
) -> FieldErrors:
    if step.sign <= 0:
        yield FieldError.invalid(f"{path}.step", str(step), "must be greater than zero")
        return
    if minimum + step > whole:
        text = f"one step {minimum + step} is larger than capacity value: {whole}"
        yield FieldError.invalid(f"{path}.step", str(step), text)
    numbers = {"default": default, "min": minimum, "max": maximum, "step": step}
    errors = [
        FieldError.invalid(f"{path}.{name}", str(number), text)
        for name, number in numbers.items()
        if number is not None and (text := _find_int64_error(number))
    ]
    yield from errors
    for value in (default, maximum) if not errors else ():
        if value is not None and (value.value() - minimum.value()) % step.value():
            text = f"value is not a multiple of a given step ({step}) from ({minimum})"
            yield FieldError.invalid(f"{path}.step", str(value), text)


def _find_int64_error(number: Quantity) -> str:
    if number.sign < 0:
        return NEGATIVE
    return _TOO_LARGE if number > _MAX_INT64 else ""


_MAX_DEVICES, _MAX_ADVANCED_DEVICES, _MAX_TAINTS, _MAX_COUNTER_SETS, _MAX_COUNTERS = 128, 64, 16, 8, 32
_MAX_COUNTER_CONSUMPTIONS, _MAX_ATTRIBUTES, _MAX_ATTRIBUTE_LENGTH = 2, 32, 64
_NUMBER, _BUILD = r"(0|[1-9]\d*)", r"[0-9a-zA-Z-]+"
_PRE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_is_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE}(\.{_PRE})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII
).fullmatch
_PLACES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_PLACES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_TRUE_OR_NONE = "must be either unset or set to true"


def validate_resource_slice_spec(spec: ResourceSliceSpec, old: ResourceSliceSpec | None, path: str) -> FieldErrors:
    yield from validate_driver_name(spec.driver, f"{path}.driver")
    yield from _validate_pool(spec.pool, f"{path}.pool")
    if old is not None:
        yield from validate_immutable(spec.pool.name, old.pool.name, f"{path}.pool.name")
        yield from validate_immutable(spec.driver, old.driver, f"{path}.driver")
        yield from validate_immutable(spec.nodeName, old.nodeName, f"{path}.nodeName")
    yield from _validate_node_selection(spec, path)
    if spec.sharedCounters and spec.devices:
        yield FieldError.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed")
    before = {device.name: device for device in old.devices} if old is not None else {}

    def validate_device(device: Device, item_path: str) -> FieldErrors:
        return _validate_device(device, before.get(device.name), bool(spec.perDeviceNodeSelection), item_path)

    is_advanced = any(device.taints or device.consumesCounters for device in spec.devices)
    maximum = _MAX_ADVANCED_DEVICES if is_advanced else _MAX_DEVICES
    yield from validate_set(spec.devices, maximum, validate_device, lambda device: device.name, f"{path}.devices")
    yield from validate_items(spec.sharedCounters, _MAX_COUNTER_SETS, _validate_counter_set, f"{path}.sharedCounters")


def _validate_pool(pool: ResourcePool, path: str) -> FieldErrors:
    yield from validate_pool_name(pool.name, f"{path}.name")
    if pool.resourceSliceCount <= 0:
        yield FieldError.invalid(f"{path}.resourceSliceCount", pool.resourceSliceCount, "must be greater than zero")
    if pool.generation < 0:
        yield FieldError.invalid(f"{path}.generation", pool.generation, "must be greater than or equal to zero")


def _validate_node_selection(spec: ResourceSliceSpec, path: str) -> FieldErrors:
    fields = []
    if spec.nodeName is not None:
        if spec.nodeName:
            fields.append("`nodeName`")
            yield from validate_dns_subdomain(spec.nodeName, f"{path}.nodeName")
        else:
            yield FieldError.invalid(f"{path}.nodeName", "", "must be either unset or set to a non-empty string")
    if spec.nodeSelector is not None:
        fields.append("`nodeSelector`")
        yield from validate_node_selector(spec.nodeSelector, f"{path}.nodeSelector")
        terms = spec.nodeSelector.nodeSelectorTerms or []
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            yield FieldError.invalid(f"{path}.nodeSelector.nodeSelectorTerms", encode_error_value(terms), text)
    for field in ("allNodes", "perDeviceNodeSelection"):
        value = getattr(spec, field)
        if value:
            fields.append(f"`{field}`")
        elif value is not None:
            yield FieldError.invalid(f"{path}.{field}", value, _TRUE_OR_NONE)
    if not fields:
        yield FieldError.required(path, _PLACES)
    elif len(fields) > 1:
        yield FieldError.invalid(path, f"{{{', '.join(fields)}}}", f"{_PLACES}, but multiple fields are set")


def _validate_counter_set(counter_set: CounterSet, path: str) -> FieldErrors:
    yield from _validate_counters(counter_set.counters, f"{path}.counters")


def _validate_counter_consumption(consumption: DeviceCounterConsumption, path: str) -> FieldErrors:
    yield from _validate_counters(consumption.counters, f"{path}.counters")


def _validate_counters(counters: Mapping[str, Counter], field_path: str) -> FieldErrors:
    if len(counters) > _MAX_COUNTERS:
        yield FieldError.too_many(field_path, len(counters), _MAX_COUNTERS)


def _validate_device(device: Device, old: Device | None, has_own_place: bool, path: str) -> FieldErrors:
    yield from validate_dns_label(device.name, f"{path}.name")
    count = len(device.attributes) + len(device.capacity)
    if count > _MAX_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        yield FieldError.invalid(path, count, text)
    yield from validate_map(
        device.attributes,
        MAX_QUALIFIED_NAME_LENGTH,
        validate_device_qualified_name,
        _validate_attribute,
        f"{path}.attributes",
    )
    validate_capacity = (
        validate_multi_allocatable_capacity if device.allowMultipleAllocations else validate_single_allocatable_capacity
    )
    yield from validate_map(
        device.capacity,
        MAX_QUALIFIED_NAME_LENGTH,
        validate_device_qualified_name,
        validate_capacity,
        f"{path}.capacity",
    )
    if old is None or old.taints != device.taints:
        yield from validate_slice(device.taints, _MAX_TAINTS, validate_device_taint, f"{path}.taints")
    yield from validate_items(
        device.consumesCounters,
        _MAX_COUNTER_CONSUMPTIONS,
        _validate_counter_consumption,
        f"{path}.consumesCounters",
    )
    if has_own_place:
        yield from _validate_device_node_selection(device, path)
    elif (device.nodeName, device.nodeSelector, device.allNodes) != (None, None, None):
        start = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true"
        yield FieldError.invalid(path, None, f"{start} in the ResourceSlice spec")
    yield from validate_binding_conditions(device.bindingConditions, device.bindingFailureConditions, path)


def _validate_device_node_selection(device: Device, path: str) -> FieldErrors:
    fields = []
    if device.nodeName:
        fields.append("`nodeName`")
        yield from validate_dns_subdomain(device.nodeName, f"{path}.nodeName")
    elif device.nodeName is not None:
        yield FieldError.invalid(f"{path}.nodeName", "", "must not be empty")
    if device.nodeSelector is not None:
        fields.append("`nodeSelector`")
        yield from validate_node_selector(device.nodeSelector, f"{path}.nodeSelector")
    if device.allNodes:
        fields.append("`allNodes`")
    elif device.allNodes is not None:
        yield FieldError.invalid(f"{path}.allNodes", False, _TRUE_OR_NONE)
    if not fields:
        yield FieldError.required(path, _DEVICE_PLACES)
    elif len(fields) > 1:
        yield FieldError.invalid(path, f"{{{', '.join(fields)}}}", _DEVICE_PLACES)


def _validate_attribute(attribute: DeviceAttribute, path: str) -> FieldErrors:
    if attribute.string is not None and names.size(attribute.string) > _MAX_ATTRIBUTE_LENGTH:
        yield FieldError.too_long(f"{path}.string", _MAX_ATTRIBUTE_LENGTH)
    if attribute.version is not None:
        if not _is_version(attribute.version):
            text = "must be a string compatible with semver.org spec 2.0.0"
            yield FieldError.invalid(f"{path}.version", attribute.version, text)
        if names.size(attribute.version) > _MAX_ATTRIBUTE_LENGTH:
            yield FieldError.too_long(f"{path}.version", _MAX_ATTRIBUTE_LENGTH)
