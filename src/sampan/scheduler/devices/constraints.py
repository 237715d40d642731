"""Constraints of a claim: attributes that must be equal, or distinct, across all of its devices. Pure."""

from __future__ import annotations

from typing import NamedTuple

from sampan.api.types.resource_v1 import DeviceConstraint
from sampan.scheduler.devices.pools import Candidate
from sampan.scheduler.devices.wants import Wanted

Value = tuple[str, object]


class Given(NamedTuple):
    wanted: Wanted
    candidate: Candidate


class Constraint:
    """A constraint over the devices that were added to it. Devices are removed in the reverse order of adding."""

    def __init__(self, said: DeviceConstraint) -> None:
        self._name = said.matchAttribute or said.distinctAttribute or ""
        self._is_same = bool(said.matchAttribute)
        self._requests = frozenset(said.requests)
        self._values: list[Value] = []

    def add(self, given: Given) -> bool:
        """Add the device if the constraint still holds with it, and return whether it does."""
        if not self._is_about(given.wanted):
            return True
        value = attribute(given.candidate, self._name)
        if value is None or (self._values and (value in self._values) is not self._is_same):
            return False
        self._values.append(value)
        return True

    def take_back(self, given: Given) -> None:
        if self._is_about(given.wanted):
            self._values.pop()

    def _is_about(self, wanted: Wanted) -> bool:
        return not self._requests or wanted.name in self._requests or wanted.parent in self._requests


def attribute(candidate: Candidate, name: str) -> Value | None:
    """Return the device's attribute of this fully qualified name.

    In a slice the driver's own attributes may omit the domain.
    """
    attributes = candidate.device.attributes
    domain, _, own = name.partition("/")
    device_attribute = attributes.get(name) or (attributes.get(own) if domain == candidate.id.driver else None)
    if device_attribute is None:
        return None
    pairs = (
        ("string", device_attribute.string),
        ("int", device_attribute.int),
        ("bool", device_attribute.bool),
        ("version", device_attribute.version),
    )
    return next(((kind, value) for kind, value in pairs if value is not None), None)
