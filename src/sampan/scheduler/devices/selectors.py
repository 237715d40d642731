"""Which devices a selector in CEL is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.types.resource_v1 import Device, DeviceAttribute, DeviceSelector
from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.quantities import FUNCTIONS, quantity_value, version_value


class SelectorFailed(Exception):
    """A selector that makes no sense for a device; the message says why."""


class Selectors:
    def __init__(self) -> None:
        self._env: Environment | None = None

    def all_match(self, selectors: Sequence[DeviceSelector], driver: str, device: Device) -> bool:
        value: Mapping[str, Any] | None = None
        for at, selector in enumerate(selectors):
            if selector.cel is None:
                raise SelectorFailed(f"selector #{at}: unknown selector type")
            value = value if value is not None else {"device": device_value(driver, device)}
            if not self._matches(selector.cel.expression, value, at):
                return False
        return True

    def _matches(self, expression: str, value: Mapping[str, Any], at: int) -> bool:
        if self._env is None:
            self._env = Environment(variables=("device",), functions=FUNCTIONS)
        try:
            compiled = self._env.compile(expression)
        except CelError as fault:
            raise SelectorFailed(f"selector #{at}: CEL compile error: {fault}") from fault
        try:
            found = compiled.evaluate(value)
        except CelError as fault:
            raise SelectorFailed(f"selector #{at}: runtime error: {fault}") from fault
        if not isinstance(found, bool):
            raise SelectorFailed(f"selector #{at}: must evaluate to true or false")
        return found


def device_value(driver: str, device: Device) -> dict[str, Any]:
    """The device as expressions see it: attributes and capacity by domain, the driver's own where none is named."""
    attributes: dict[str, dict[str, Any]] = {driver: {}}
    for name, found in device.attributes.items():
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = _attribute(found)
    capacity: dict[str, dict[str, Any]] = {driver: {}}
    for name, amount in device.capacity.items():
        domain, own = _split(name, driver)
        capacity.setdefault(domain, {})[own] = quantity_value(str(amount.value))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": bool(device.allowMultipleAllocations),
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, _, own = name.rpartition("/")
    return domain or driver, own


def _attribute(found: DeviceAttribute) -> Any:
    if found.version is not None:
        return version_value(found.version)
    for value in (found.string, found.int, found.bool):
        if value is not None:
            return value
    return next((value for value in (found.strings, found.ints, found.bools) if value), [])


__all__ = ["SelectorFailed", "Selectors", "device_value"]
