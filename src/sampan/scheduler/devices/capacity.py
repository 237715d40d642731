"""How much of a device's capacity a request consumes, and whether that much is left. Pure.

A device that allows multiple allocations gives each claim a share of its capacity. The request policy of the device
limits the size of a share: a request is rounded up to a valid amount, and a request without an amount gets the default,
or the whole capacity.
"""

from __future__ import annotations

from collections.abc import Mapping

from sampan.api.quantity import Format, Quantity, parse
from sampan.api.types.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

Consumed = Mapping[str, Quantity]
NOTHING: Consumed = {}


def taken_of(device: Device, wanted: Consumed) -> dict[str, Quantity] | None:
    """Return the amount that the request consumes of each capacity of the device, or None if the device cannot serve
    it.
    """
    if any(name not in device.capacity for name in wanted):
        return None
    amounts = {name: _taken(wanted.get(name), capacity) for name, capacity in device.capacity.items()}
    if any(_is_against(amount, device.capacity[name].requestPolicy) for name, amount in amounts.items()):
        return None
    return amounts


def has_room(device: Device, taken: Consumed, *others: Consumed) -> bool:
    """Whether the device has that much capacity left besides what `others` consume."""
    return all(
        sum((other[name] for other in others if name in other), start=amount) <= parse(device.capacity[name].value)
        for name, amount in taken.items()
    )


def _taken(wanted: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.requestPolicy
    if wanted is None:
        default = policy.default if policy is not None else None
        return parse(default if default is not None else capacity.value)
    if policy is not None and policy.validRange is not None and policy.validRange.min is not None:
        return _stepped(wanted, policy.validRange)
    for valid in policy.validValues if policy is not None else ():
        if wanted <= parse(valid):
            return parse(valid)
    return wanted


def _stepped(wanted: Quantity, valid: CapacityRequestPolicyRange) -> Quantity:
    """Return the smallest amount of the range that satisfies the request, regardless of the range's maximum."""
    least = parse(valid.min or "0")
    if wanted < least:
        return least
    if valid.step is None:
        return wanted
    step = parse(valid.step).value()
    steps = -((least.value() - wanted.value()) // step)
    return Quantity(least.value() + step * steps, format=Format.BINARY_SI)


def _is_against(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and amount == parse(policy.default)):
        return False
    if policy.validRange is not None:
        return _is_outside(amount, policy.validRange)
    return bool(policy.validValues) and all(amount != parse(valid) for valid in policy.validValues)


def _is_outside(amount: Quantity, valid: CapacityRequestPolicyRange) -> bool:
    if valid.max is not None and amount > parse(valid.max):
        return True
    if valid.step is None:
        return False
    return (amount.value() - parse(valid.min or "0").value()) % parse(valid.step).value() != 0
