"""Validation of the devices that drivers publish in resource slices."""

import re
from collections.abc import Mapping

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.resource_v1 import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCounterConsumption,
    ResourcePool,
    ResourceSliceSpec,
)
from sampan.apiserver.registry.devices.allocations import binding_faults
from sampan.apiserver.registry.devices.collections import distinct, each, entries
from sampan.apiserver.registry.devices.naming import (
    LONGEST_KEY,
    driver_faults,
    pool_faults,
    qualified_name_faults,
    taint_faults,
)
from sampan.apiserver.registry.devices.policies import shared_faults, single_faults
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, dns_subdomain, fixed, given
from sampan.apiserver.registry.podspec.internal_view import shown
from sampan.apiserver.registry.podspec.node_selectors import node_selector_faults

_MOST_DEVICES, _MOST_ADVANCED, _MOST_TAINTS, _MOST_COUNTER_SETS, _MOST_COUNTERS = 128, 64, 16, 8, 32
_MOST_CONSUMPTIONS, _MOST_ATTRIBUTES, _LONGEST_VALUE = 2, 32, 64
_SCALARS = ("bool", "int", "string", "version")
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


def slice_faults(spec: ResourceSliceSpec, old: ResourceSliceSpec | None, at: str) -> Faults:
    yield from driver_faults(spec.driver, f"{at}.driver")
    yield from _pool_faults(spec.pool, f"{at}.pool")
    if old is not None:
        yield from fixed(spec.pool.name, old.pool.name, f"{at}.pool.name")
        yield from fixed(spec.driver, old.driver, f"{at}.driver")
        yield from fixed(spec.nodeName, old.nodeName, f"{at}.nodeName")
    yield from _place_faults(spec, at)
    if spec.sharedCounters and spec.devices:
        yield FieldError.invalid(at, "", "only one of `sharedCounters` or `devices` is allowed")
    before = {device.name: device for device in old.devices} if old is not None else {}

    def device_faults(device: Device, here: str) -> Faults:
        return _device_faults(device, before.get(device.name), bool(spec.perDeviceNodeSelection), here)

    is_advanced = any(device.taints or device.consumesCounters for device in spec.devices)
    most = _MOST_ADVANCED if is_advanced else _MOST_DEVICES
    yield from distinct(spec.devices, most, device_faults, lambda device: device.name, f"{at}.devices")
    yield from distinct(
        spec.sharedCounters,
        _MOST_COUNTER_SETS,
        _counter_set_faults,
        lambda counter_set: counter_set.name,
        f"{at}.sharedCounters",
    )


def _pool_faults(pool: ResourcePool, at: str) -> Faults:
    yield from pool_faults(pool.name, f"{at}.name")
    if pool.resourceSliceCount <= 0:
        yield FieldError.invalid(f"{at}.resourceSliceCount", pool.resourceSliceCount, "must be greater than zero")
    if pool.generation < 0:
        yield FieldError.invalid(f"{at}.generation", pool.generation, "must be greater than or equal to zero")


def _place_faults(spec: ResourceSliceSpec, at: str) -> Faults:
    fields = []
    if spec.nodeName is not None:
        if spec.nodeName:
            fields.append("`nodeName`")
            yield from dns_subdomain(spec.nodeName, f"{at}.nodeName")
        else:
            yield FieldError.invalid(f"{at}.nodeName", "", "must be either unset or set to a non-empty string")
    if spec.nodeSelector is not None:
        fields.append("`nodeSelector`")
        yield from node_selector_faults(spec.nodeSelector, f"{at}.nodeSelector")
        terms = spec.nodeSelector.nodeSelectorTerms or []
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            yield FieldError.invalid(f"{at}.nodeSelector.nodeSelectorTerms", shown(terms), text)
    for field in ("allNodes", "perDeviceNodeSelection"):
        value = getattr(spec, field)
        if value:
            fields.append(f"`{field}`")
        elif value is not None:
            yield FieldError.invalid(f"{at}.{field}", value, _TRUE_OR_NONE)
    if not fields:
        yield FieldError.required(at, _PLACES)
    elif len(fields) > 1:
        yield FieldError.invalid(at, f"{{{', '.join(fields)}}}", f"{_PLACES}, but multiple fields are set")


def _counter_set_faults(found: CounterSet, at: str) -> Faults:
    yield from dns_label(found.name, f"{at}.name") if found.name else given("", f"{at}.name")
    yield from _counter_faults(found.counters, f"{at}.counters")


def _consumption_faults(found: DeviceCounterConsumption, at: str) -> Faults:
    yield from dns_label(found.counterSet, f"{at}.counterSet") if found.counterSet else given("", f"{at}.counterSet")
    yield from _counter_faults(found.counters, f"{at}.counters")


def _counter_faults(counters: Mapping[str, Counter], at: str) -> Faults:
    if not counters:
        yield FieldError.required(at)
    elif len(counters) > _MOST_COUNTERS:
        yield FieldError.too_many(at, len(counters), _MOST_COUNTERS)
    else:
        yield from entries(counters, names.LABEL_MAX, dns_label, lambda counter, path: (), at)


def _device_faults(device: Device, old: Device | None, has_own_place: bool, at: str) -> Faults:
    yield from dns_label(device.name, f"{at}.name")
    count = len(device.attributes) + len(device.capacity)
    if count > _MOST_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {_MOST_ATTRIBUTES}"
        yield FieldError.invalid(at, count, text)
    yield from entries(device.attributes, LONGEST_KEY, qualified_name_faults, _attribute_faults, f"{at}.attributes")
    capacity_faults = shared_faults if device.allowMultipleAllocations else single_faults
    yield from entries(device.capacity, LONGEST_KEY, qualified_name_faults, capacity_faults, f"{at}.capacity")
    if old is None or old.taints != device.taints:
        yield from each(device.taints, _MOST_TAINTS, taint_faults, f"{at}.taints")
    yield from distinct(
        device.consumesCounters,
        _MOST_CONSUMPTIONS,
        _consumption_faults,
        lambda consumption: consumption.counterSet,
        f"{at}.consumesCounters",
    )
    if has_own_place:
        yield from _device_place_faults(device, at)
    elif (device.nodeName, device.nodeSelector, device.allNodes) != (None, None, None):
        start = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true"
        yield FieldError.invalid(at, None, f"{start} in the ResourceSlice spec")
    yield from binding_faults(device.bindingConditions, device.bindingFailureConditions, at)


def _device_place_faults(device: Device, at: str) -> Faults:
    fields = []
    if device.nodeName:
        fields.append("`nodeName`")
        yield from dns_subdomain(device.nodeName, f"{at}.nodeName")
    elif device.nodeName is not None:
        yield FieldError.invalid(f"{at}.nodeName", "", "must not be empty")
    if device.nodeSelector is not None:
        fields.append("`nodeSelector`")
        yield from node_selector_faults(device.nodeSelector, f"{at}.nodeSelector")
    if device.allNodes:
        fields.append("`allNodes`")
    elif device.allNodes is not None:
        yield FieldError.invalid(f"{at}.allNodes", False, _TRUE_OR_NONE)
    if not fields:
        yield FieldError.required(at, _DEVICE_PLACES)
    elif len(fields) > 1:
        yield FieldError.invalid(at, f"{{{', '.join(fields)}}}", _DEVICE_PLACES)


def _attribute_faults(attribute: DeviceAttribute, at: str) -> Faults:
    if attribute.string is not None and names.size(attribute.string) > _LONGEST_VALUE:
        yield FieldError.too_long(f"{at}.string", _LONGEST_VALUE)
    if attribute.version is not None:
        if not _is_version(attribute.version):
            text = "must be a string compatible with semver.org spec 2.0.0"
            yield FieldError.invalid(f"{at}.version", attribute.version, text)
        if names.size(attribute.version) > _LONGEST_VALUE:
            yield FieldError.too_long(f"{at}.version", _LONGEST_VALUE)
    count = sum(getattr(attribute, field) is not None for field in _SCALARS)
    if count != 1:
        yield FieldError.invalid(at, shown(attribute) if count else "", "exactly one value must be specified")
