"""Validation of opaque driver parameters and of the CEL expressions that select devices."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.limits import DEVICE_SELECTOR_BYTES
from sampan.api.types.resource_v1 import DeviceSelector, OpaqueDeviceConfiguration
from sampan.apiserver.registry.devices.collections import validate_slice
from sampan.apiserver.registry.devices.naming import validate_driver_name
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.machinery.cel.devices import compiled
from sampan.machinery.cel.errors import CelError

MOST_CONFIGURATIONS = 32
_MOST_SELECTORS, _LONGEST_PARAMETERS = 32, 10 * 1024


def validate_selectors(selectors: Sequence[DeviceSelector], at: str) -> FieldErrors:
    yield from validate_slice(selectors, _MOST_SELECTORS, _validate_selector, at)


def _validate_selector(selector: DeviceSelector, at: str) -> FieldErrors:
    if selector.cel is None:
        yield FieldError.required(f"{at}.cel")
    elif names.size(selector.cel.expression) > DEVICE_SELECTOR_BYTES:
        yield FieldError.too_long(f"{at}.cel.expression", DEVICE_SELECTOR_BYTES)
    else:
        yield from _validate_expression(selector.cel.expression, f"{at}.cel.expression")


def _validate_expression(expression: str, at: str) -> FieldErrors:
    try:
        selector = compiled(expression)
    except CelError as error:
        yield FieldError.invalid(at, expression, str(error))
        return
    if selector.is_too_costly:
        yield FieldError.forbidden(at, "too complex, exceeds cost limit")


def validate_opaque_configuration(configuration: OpaqueDeviceConfiguration | None, at: str) -> FieldErrors:
    if configuration is None:
        yield FieldError.required(f"{at}.opaque")
        return
    yield from validate_driver_name(configuration.driver, f"{at}.opaque.driver")
    yield from validate_raw_object(configuration.parameters, f"{at}.opaque.parameters")


def validate_raw_object(value: Any, at: str) -> FieldErrors:
    """Yield errors unless the value is a JSON object of limited size."""
    if value is None:
        yield FieldError.required(at)
    elif len(msgspec.json.encode(value)) > _LONGEST_PARAMETERS:
        yield FieldError.too_long(at, _LONGEST_PARAMETERS)
    elif not isinstance(value, dict):
        yield FieldError.invalid(at, "<value omitted>", "must be a valid JSON object")
