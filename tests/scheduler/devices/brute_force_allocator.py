"""A brute force allocator that tries combinations of devices in the order of the real one, until one is valid."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

from sampan.api.types.resource_v1 import Device, ResourceClaim
from sampan.api.values.quantity import parse
from tests.scheduler.devices.device_world import DRIVER

MAX_DEVICES = 32


class Pick(NamedTuple):
    claim: int
    request: str
    parent: str
    alternative: Any
    device: Device


@cache
def number(text: str) -> Fraction:
    quantity = parse(text)
    return Fraction(quantity.mantissa) * Fraction(10) ** quantity.scale


def alternatives(claim: int, request: Any) -> Iterator[tuple[str, str, Any]]:
    if request.exactly is not None:
        yield request.name, request.name, request.exactly
    for subrequest in request.firstAvailable:
        yield f"{request.name}/{subrequest.name}", request.name, subrequest


def matches_selectors(request: Any, device: Device) -> bool:
    """Whether the device matches the selectors, which name a model in these tests."""
    return all(f'"{device.attributes["model"].string}"' in selector.cel.expression for selector in request.selectors)


def consumed_capacity(request: Any, device: Device, name: str) -> Fraction | None:
    """How much of a capacity the request consumes; None if the device cannot satisfy it."""
    capacity = device.capacity[name]
    policy, whole = capacity.requestPolicy, number(capacity.value)
    requested = request.capacity.requests.get(name) if request.capacity is not None else None
    if policy is None:
        return number(requested) if requested is not None else whole
    if requested is None:
        return number(policy.default or "0")
    if policy.validValues:
        return next((number(size) for size in policy.validValues if number(requested) <= number(size)), None)
    if policy.validRange is None:
        return number(requested)
    least, most = number(policy.validRange.min or "0"), number(policy.validRange.max or capacity.value)
    amount = max(number(requested), least)
    if policy.validRange.step is not None:
        step = number(policy.validRange.step)
        amount = least + -((least - amount) // step) * step
    return amount if amount <= most else None


def options(claim: int, request: Any, devices: Sequence[Device], used: dict[str, list[dict[str, Fraction]]]) -> Any:
    for name, parent, subrequest in alternatives(claim, request):
        matching = [device for device in devices if matches_selectors(subrequest, device)]
        if subrequest.allocationMode == "All":
            every = [device for device in matching if has_room(subrequest, device, used.get(device.name, []))]
            if every:
                yield [Pick(claim, name, parent, subrequest, device) for device in every]
        else:
            for chosen in combinations(matching, subrequest.count or 1):
                yield [Pick(claim, name, parent, subrequest, device) for device in chosen]


def has_room(request: Any, device: Device, others: Sequence[dict[str, Fraction]]) -> bool:
    if request.capacity is not None and any(name not in device.capacity for name in request.capacity.requests):
        return False
    for name, capacity in device.capacity.items():
        own = consumed_capacity(request, device, name)
        if own is None or own + sum(usage.get(name, Fraction(0)) for usage in others) > number(capacity.value):
            return False
    return True


def is_valid(
    picks: Sequence[Pick],
    claims: Sequence[ResourceClaim],
    devices: Sequence[Device],
    in_use: Sequence[str],
    used: dict[str, list[dict[str, Fraction]]],
    counters: dict[str, Fraction],
) -> bool:
    held: list[tuple[str, int]] = []
    shares = {name: list(parts) for name, parts in used.items()}
    for pick in picks:
        name, is_admin = pick.device.name, bool(getattr(pick.alternative, "adminAccess", None))
        if is_admin and (name, pick.claim) in held:
            return False
        if not is_admin and (name in in_use or any(name == other for other, _ in held)):
            return False
        if not has_room(pick.alternative, pick.device, shares.get(name, [])):
            return False
        if pick.device.taints and not pick.alternative.tolerations:
            return False
        if pick.device.allowMultipleAllocations:
            parts = {
                key: consumed_capacity(pick.alternative, pick.device, key) or Fraction(0)
                for key in pick.device.capacity
            }
            shares.setdefault(name, []).append(parts)
        else:
            held.append((name, pick.claim))
    allocated = {*in_use, *used}
    added = {pick.device.name for pick in picks if not getattr(pick.alternative, "adminAccess", None)} - allocated
    return are_counters_sufficient(devices, allocated, added, counters) and all(
        are_constrained([pick for pick in picks if pick.claim == at], claim) for at, claim in enumerate(claims)
    )


def are_counters_sufficient(
    devices: Sequence[Device], allocated: set[str], added: set[str], counters: dict[str, Fraction]
) -> bool:
    """Whether the counters that the added devices consume are available. Allocated devices may have overcommitted the
    counters, which blocks only devices that consume them.
    """
    left, demanded = dict(counters), set()
    for device in devices:
        for use in device.consumesCounters if device.name in allocated | added else ():
            for key, amount in use.counters.items():
                left[key] -= number(amount.value)
                if device.name in added:
                    demanded.add(key)
    return all(left[key] >= 0 for key in demanded)


def are_constrained(picks: Sequence[Pick], claim: ResourceClaim) -> bool:
    if len(picks) > MAX_DEVICES:
        return False
    for constraint in claim.spec.devices.constraints:
        name = (constraint.matchAttribute or constraint.distinctAttribute or "").removeprefix(f"{DRIVER}/")
        constrained_picks = [
            pick
            for pick in picks
            if not constraint.requests or {pick.request, pick.parent}.intersection(constraint.requests)
        ]
        values = [
            pick.device.attributes[name].int if name in pick.device.attributes else None for pick in constrained_picks
        ]
        if None in values or (values and len(set(values)) != (1 if constraint.matchAttribute else len(values))):
            return False
    return True


def first_valid_allocation(
    claims: Sequence[ResourceClaim],
    devices: Sequence[Device],
    in_use: Sequence[str] = (),
    used: dict[str, list[dict[str, Fraction]]] | None = None,
    counters: dict[str, Fraction] | None = None,
) -> list[list[tuple[str, str]]] | None:
    """The requests and devices of each claim. `in_use` are devices of other claims, `used` their shares of devices."""
    used = used or {}
    every = [
        list(options(at, request, devices, used))
        for at, claim in enumerate(claims)
        for request in claim.spec.devices.requests or ()
    ]
    for chosen in product(*every):
        picks = [pick for some in chosen for pick in some]
        if is_valid(picks, claims, devices, in_use, used, counters or {}):
            return [
                [(pick.request, pick.device.name) for pick in picks if pick.claim == at] for at in range(len(claims))
            ]
    return None
