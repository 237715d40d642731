"""Evaluation of CEL device selectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sampan.api.types.resource_v1 import Device, DeviceAttribute, DeviceSelector
from sampan.machinery.cel.devices import compiled, loading
from sampan.machinery.cel.errors import CelError
from sampan.scheduler.devices.pools import Candidate
from sampan.scheduler.devices.wants import Refusal, Wanted

_MOST_MATCHED = 64
"""How many results of expressions a device caches. It is limited because every user can write new expressions."""


class Selectors:
    def __init__(self) -> None:
        self._is_ready = False

    def ready(self) -> Iterator[None]:
        """Load the CEL environment, yielding now and then; to be exhausted before the first call of `suits`."""
        if not self._is_ready:
            yield from loading()
            self._is_ready = True

    def suits(self, claim: int, wanted: Wanted, candidate: Candidate) -> bool | Refusal:
        """Whether the selectors of class and request match the device; a Refusal if they cannot be evaluated."""
        if wanted.device_class is not None:
            verdict = self._all(wanted.device_class.spec.selectors, candidate)
            if isinstance(verdict, str):
                return Refusal(f"class {wanted.device_class.metadata.name}: {verdict}")
            if not verdict:
                return False
        verdict = self._all(wanted.selectors, candidate)
        return Refusal(f": {verdict}", claim) if isinstance(verdict, str) else verdict

    def _all(self, selectors: Sequence[DeviceSelector], candidate: Candidate) -> bool | str:
        for at, selector in enumerate(selectors):
            if selector.cel is None:
                return f"selector #{at}: CEL expression empty (unsupported selector type?)"
            verdict = self._matches(selector.cel.expression, candidate)
            if isinstance(verdict, str):
                return f"selector #{at}: {verdict}"
            if not verdict:
                return False
        return True

    def _matches(self, expression: str, candidate: Candidate) -> bool | str:
        verdict = candidate.matched.get(expression)
        if verdict is None:
            if len(candidate.matched) >= _MOST_MATCHED:
                candidate.matched.clear()
            verdict = candidate.matched[expression] = self._evaluated(expression, candidate)
        return verdict

    def _evaluated(self, expression: str, candidate: Candidate) -> bool | str:
        try:
            program = compiled(expression)
        except CelError as compile_error:
            return f"CEL compile error: {compile_error}"
        try:
            return program.matches(device_value(candidate.id.driver, candidate.device))
        except ValueError as error:  # evaluation failed, or an attribute is not a valid version
            return f"CEL runtime error: {error}"


def device_value(driver: str, device: Device) -> dict[str, Any]:
    """Return the `device` variable of expressions.

    Attributes and capacities are grouped by domain; names without a domain belong to the driver.
    """
    from sampan.machinery.cel.library.quantities import quantity_value

    attributes: dict[str, dict[str, Any]] = {driver: {}}
    for name, attribute in device.attributes.items():
        domain, own = _split(name, driver)
        attributes.setdefault(domain, {})[own] = _attribute(attribute)
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
        from sampan.machinery.cel.library.versions import version_value

        return version_value(found.version)
    for value in (found.string, found.int, found.bool):
        if value is not None:
            return value
    return next((value for value in (found.strings, found.ints, found.bools) if value), [])
