"""Limits on the devices of a request: consumable capacity, constraints of the claim, and device taints. Pure.

A device that allows multiple allocations gives each claim a share of its capacity. The request policy of the device
limits the size of a share: a request is rounded up to a valid amount, and a request without an amount gets the default,
or the whole capacity. A constraint requires an attribute to be equal, or distinct, across all devices of a claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sampan.api.semantics.taints import NO_EXECUTE, NO_SCHEDULE, find_untolerated_taints
from sampan.api.types.resource_v1 import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    DeviceCapacity,
    DeviceConstraint,
    DeviceTaint,
    DeviceToleration,
)
from sampan.api.values.quantity import Format, Quantity, parse
from sampan.scheduler.devices.claim_requests import RequestAlternative
from sampan.scheduler.devices.pools import CandidateDevice

Consumed = Mapping[str, Quantity]
NO_CAPACITY: Consumed = {}


def consumed_capacity(device: Device, requested: Consumed) -> dict[str, Quantity] | None:
    """Return the amount that the request consumes of each capacity of the device, or None if the device cannot serve
    it.
    """
    if any(name not in device.capacity for name in requested):
        return None
    amounts = {name: _consumed_amount(requested.get(name), capacity) for name, capacity in device.capacity.items()}
    if any(_violates_policy(amount, device.capacity[name].requestPolicy) for name, amount in amounts.items()):
        return None
    return amounts


def has_capacity(device: Device, consumed: Consumed, *others: Consumed) -> bool:
    """Whether the device has the capacity `consumed` left, in addition to the capacities that `others` consume."""
    return all(
        sum((other[name] for other in others if name in other), start=amount) <= parse(device.capacity[name].value)
        for name, amount in consumed.items()
    )


def _consumed_amount(requested: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.requestPolicy
    if requested is None:
        default = policy.default if policy is not None else None
        return parse(default if default is not None else capacity.value)
    if policy is not None and policy.validRange is not None and policy.validRange.min is not None:
        return _round_up(requested, policy.validRange)
    for valid in policy.validValues if policy is not None else ():
        if requested <= parse(valid):
            return parse(valid)
    return requested


def _round_up(requested: Quantity, valid: CapacityRequestPolicyRange) -> Quantity:
    """Return the smallest amount of the range that satisfies the request, regardless of the range's maximum."""
    minimum = parse(valid.min or "0")
    if requested < minimum:
        return minimum
    if valid.step is None:
        return requested
    step = parse(valid.step).value()
    steps = -((minimum.value() - requested.value()) // step)
    return Quantity(minimum.value() + step * steps, format=Format.BINARY_SI)


def _violates_policy(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and amount == parse(policy.default)):
        return False
    if policy.validRange is not None:
        return _is_outside_range(amount, policy.validRange)
    return bool(policy.validValues) and all(amount != parse(valid) for valid in policy.validValues)


def _is_outside_range(amount: Quantity, valid: CapacityRequestPolicyRange) -> bool:
    if valid.max is not None and amount > parse(valid.max):
        return True
    if valid.step is None:
        return False
    return (amount.value() - parse(valid.min or "0").value()) % parse(valid.step).value() != 0


Value = tuple[str, object]


class RequestedDevice(NamedTuple):
    request: RequestAlternative
    candidate: CandidateDevice


class ClaimConstraint:
    """A constraint over the devices that were added to it. Devices are removed in the reverse order of adding."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._name = constraint.matchAttribute or constraint.distinctAttribute or ""
        self._is_same = bool(constraint.matchAttribute)
        self._requests = frozenset(constraint.requests)
        self._values: list[Value] = []

    def add(self, device: RequestedDevice) -> bool:
        """Add the device if the constraint still holds with it, and return whether it does."""
        if not self._applies_to(device.request):
            return True
        value = attribute_of(device.candidate, self._name)
        if value is None or (self._values and (value in self._values) is not self._is_same):
            return False
        self._values.append(value)
        return True

    def remove(self, device: RequestedDevice) -> None:
        if self._applies_to(device.request):
            self._values.pop()

    def _applies_to(self, request: RequestAlternative) -> bool:
        return not self._requests or request.name in self._requests or request.parent in self._requests


def attribute_of(candidate: CandidateDevice, name: str) -> Value | None:
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


def tolerates_taints(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    return not find_untolerated_taints(taints, tolerations, (NO_SCHEDULE, NO_EXECUTE))
