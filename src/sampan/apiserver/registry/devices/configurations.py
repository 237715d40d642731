"""Validation of opaque driver parameters and of the CEL expressions that select devices."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.limits import DEVICE_SELECTOR_BYTES
from sampan.api.types.resource_v1 import DeviceSelector, OpaqueDeviceConfiguration
from sampan.apiserver.registry.devices.collections import each
from sampan.apiserver.registry.devices.naming import driver_faults
from sampan.apiserver.registry.podspec.formats import Faults
from sampan.machinery.cel.devices import compiled
from sampan.machinery.cel.errors import CelError

MOST_CONFIGURATIONS = 32
_MOST_SELECTORS, _LONGEST_PARAMETERS = 32, 10 * 1024


def selectors_faults(selectors: Sequence[DeviceSelector], at: str) -> Faults:
    yield from each(selectors, _MOST_SELECTORS, _selector_faults, at)


def _selector_faults(selector: DeviceSelector, at: str) -> Faults:
    if selector.cel is None:
        yield FieldError.required(f"{at}.cel")
    elif names.size(selector.cel.expression) > DEVICE_SELECTOR_BYTES:
        yield FieldError.too_long(f"{at}.cel.expression", DEVICE_SELECTOR_BYTES)
    else:
        yield from _expression_faults(selector.cel.expression, f"{at}.cel.expression")


def _expression_faults(expression: str, at: str) -> Faults:
    try:
        selector = compiled(expression)
    except CelError as error:
        yield FieldError.invalid(at, expression, str(error))
        return
    if selector.is_too_costly:
        yield FieldError.forbidden(at, "too complex, exceeds cost limit")


def opaque_faults(found: OpaqueDeviceConfiguration | None, at: str) -> Faults:
    if found is None:
        yield FieldError.required(f"{at}.opaque")
        return
    yield from driver_faults(found.driver, f"{at}.opaque.driver")
    yield from object_faults(found.parameters, f"{at}.opaque.parameters")


def object_faults(value: Any, at: str) -> Faults:
    """Yield errors unless the value is a JSON object of limited size."""
    if value is None:
        yield FieldError.required(at)
    elif len(msgspec.json.encode(value)) > _LONGEST_PARAMETERS:
        yield FieldError.too_long(at, _LONGEST_PARAMETERS)
    elif not isinstance(value, dict):
        yield FieldError.invalid(at, "<value omitted>", "must be a valid JSON object")
