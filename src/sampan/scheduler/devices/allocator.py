"""Devices for claims: every request gets as many as it asks for, no device is given twice, and constraints hold.

A search that takes a step back when it gets no further: devices are tried in the order of pools and slices, the
alternatives of a request in the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sampan.api.quantity import parse
from sampan.api.types.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from sampan.api.types.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceConstraint,
    DeviceRequestAllocationResult,
    DeviceToleration,
    ResourceClaim,
)
from sampan.scheduler.devices.pools import Candidate, DeviceId, Matches, Pool, on_node
from sampan.scheduler.devices.selectors import SelectorFailed, Selectors

ALL = "All"
_MOST_RESULTS = 32
_MOST_STEPS = 20_000
"""After that many devices tried a node counts as one that will not do."""


class AllocationFailed(Exception):
    """Something is wrong with a claim or class for this node; the message says what."""


class Wanted(NamedTuple):
    """One request, or one alternative of it."""

    name: str
    """With the alternative's behind a slash."""
    parent: str
    class_name: str
    selectors: Sequence[Any]
    amount: int
    takes_all: bool
    is_admin: bool
    tolerations: Sequence[DeviceToleration]


class Given(NamedTuple):
    wanted: Wanted
    candidate: Candidate


@dataclass(slots=True)
class _State:
    taken: set[DeviceId]
    given: list[list[Given]] = field(default_factory=list)
    """By claim."""
    steps: int = 0


class Allocator:
    def __init__(
        self,
        *,
        pools: Sequence[Pool],
        allocated: frozenset[DeviceId],
        find_class: Callable[[str], DeviceClass | None],
        selectors: Selectors,
    ) -> None:
        self._pools, self._allocated, self._find_class, self._selectors = pools, allocated, find_class, selectors

    def allocate(self, claims: Sequence[ResourceClaim], node: str, matches: Matches) -> list[AllocationResult] | None:
        """Results for the claims in their order; None if the node has not enough."""
        offers = [(pool, on_node(pool, node, matches)) for pool in self._pools]
        state = _State(taken=set(self._allocated), given=[[] for _ in claims])
        if not self._claims(state, claims, 0, offers):
            return None
        return [self._result(claim, given, node) for claim, given in zip(claims, state.given, strict=True)]

    # -- the search --------------------------------------------------------------------------------------------------

    def _claims(self, state: _State, claims: Sequence[ResourceClaim], at: int, offers: _Offers) -> bool:
        if at == len(claims):
            return True
        return self._requests(state, claims, at, 0, offers)

    def _requests(
        self, state: _State, claims: Sequence[ResourceClaim], at: int, request_at: int, offers: _Offers
    ) -> bool:
        requests = claims[at].spec.devices.requests or ()
        if request_at == len(requests):
            return self._claims(state, claims, at + 1, offers)
        for wanted in alternatives(requests[request_at]):
            fitting = self._fitting(wanted, claims[at], offers)
            count = len(fitting) if wanted.takes_all else wanted.amount
            if wanted.takes_all and (not fitting or any(not pool.is_complete for pool, _ in offers)):
                continue
            if len(state.given[at]) + count > _MOST_RESULTS:
                continue

            def go_on() -> bool:
                return self._requests(state, claims, at, request_at + 1, offers)

            if self._devices(state, claims[at], at, wanted, fitting, 0, count, go_on):
                return True
        return False

    def _devices(
        self,
        state: _State,
        claim: ResourceClaim,
        at: int,
        wanted: Wanted,
        fitting: Sequence[Candidate],
        start: int,
        left: int,
        go_on: Callable[[], bool],
    ) -> bool:
        if not left:
            return go_on()
        for place in range(start, len(fitting)):
            state.steps += 1
            if state.steps > _MOST_STEPS:
                return False
            candidate = fitting[place]
            if self._take(state, claim, at, wanted, candidate):
                if self._devices(state, claim, at, wanted, fitting, place + 1, left - 1, go_on):
                    return True
                self._give_back(state, at, wanted, candidate)
            if wanted.takes_all:
                return False  # all or nothing: one that cannot be had spoils it
        return False

    def _take(self, state: _State, claim: ResourceClaim, at: int, wanted: Wanted, candidate: Candidate) -> bool:
        if not wanted.is_admin and candidate.id in state.taken:
            return False
        given = Given(wanted, candidate)
        if not all(_holds(constraint, [*state.given[at], given]) for constraint in claim.spec.devices.constraints):
            return False
        if not wanted.is_admin:
            if not self._has_counters(state, candidate):
                return False
            state.taken.add(candidate.id)
        state.given[at].append(given)
        return True

    def _give_back(self, state: _State, at: int, wanted: Wanted, candidate: Candidate) -> None:
        state.given[at].pop()
        if not wanted.is_admin:
            state.taken.discard(candidate.id)

    # -- what suits --------------------------------------------------------------------------------------------------

    def _fitting(self, wanted: Wanted, claim: ResourceClaim, offers: _Offers) -> list[Candidate]:
        device_class = self._find_class(wanted.class_name)
        if device_class is None:
            raise AllocationFailed(f"could not retrieve device class {wanted.class_name}")
        found = []
        for pool, candidates in offers:
            if pool.is_complete or wanted.takes_all:
                found += [one for one in candidates if self._suits_claim(wanted, device_class, claim, one)]
        return found

    def _suits_claim(self, wanted: Wanted, device_class: DeviceClass, claim: ResourceClaim, one: Candidate) -> bool:
        if not wanted.is_admin and any(not _tolerated(taint, wanted.tolerations) for taint in one.device.taints):
            return False
        try:
            return self._selectors.all_match(
                device_class.spec.selectors, one.id.driver, one.device
            ) and self._selectors.all_match(wanted.selectors, one.id.driver, one.device)
        except SelectorFailed as fault:
            where = f"claim {claim.metadata.namespace}/{claim.metadata.name}, request {wanted.name}"
            raise AllocationFailed(f"{where}: device {'/'.join(one.id)}: {fault}") from fault

    def _has_counters(self, state: _State, candidate: Candidate) -> bool:
        """Whether what the device takes of its pool's counters is left by the devices that are taken."""
        if not candidate.device.consumesCounters:
            return True
        pool = next(one for one in self._pools if (one.driver, one.name) == candidate.id[:2])
        left = {
            (name, counter): parse(value.value).milli_value()
            for name, counters in pool.counters.items()
            for counter, value in counters.items()
        }
        devices = [device for one in pool.slices for device in one.spec.devices]
        for device in devices:
            if DeviceId(pool.driver, pool.name, device.name) in state.taken or device.name == candidate.id.device:
                for key, amount in _consumed(device):
                    left[key] = left.get(key, 0) - amount
        return all(left.get(key, -1) >= 0 for key, _ in _consumed(candidate.device))

    # -- the result --------------------------------------------------------------------------------------------------

    def _result(self, claim: ResourceClaim, given: Sequence[Given], node: str) -> AllocationResult:
        results = [
            DeviceRequestAllocationResult(
                request=one.wanted.name,
                driver=one.candidate.id.driver,
                pool=one.candidate.id.pool,
                device=one.candidate.id.device,
                adminAccess=True if one.wanted.is_admin else None,
                tolerations=list(one.wanted.tolerations),
                bindingConditions=list(one.candidate.device.bindingConditions),
                bindingFailureConditions=list(one.candidate.device.bindingFailureConditions),
            )
            for one in given
        ]
        devices = DeviceAllocationResult(results=results, config=list(self._config(claim, given)))
        return AllocationResult(devices=devices, nodeSelector=_where([one.candidate for one in given], node))

    def _config(self, claim: ResourceClaim, given: Sequence[Given]) -> Iterator[DeviceAllocationConfiguration]:
        seen = {one.wanted.name: one.wanted for one in given}
        for wanted in seen.values():
            device_class = self._find_class(wanted.class_name)
            for config in device_class.spec.config if device_class is not None else ():
                yield DeviceAllocationConfiguration(source="FromClass", requests=[wanted.name], opaque=config.opaque)
        names = {name for one in seen.values() for name in (one.name, one.parent)}
        for own in claim.spec.devices.config:
            if not own.requests or names.intersection(own.requests):
                yield DeviceAllocationConfiguration(source="FromClaim", requests=own.requests, opaque=own.opaque)


_Offers = Sequence[tuple[Pool, Sequence[Candidate]]]


def alternatives(request: Any) -> Iterator[Wanted]:
    if request.exactly is not None:
        one = request.exactly
        yield _wanted(request.name, request.name, one, bool(one.adminAccess))
    for sub in request.firstAvailable:
        yield _wanted(f"{request.name}/{sub.name}", request.name, sub, False)


def _wanted(name: str, parent: str, one: Any, is_admin: bool) -> Wanted:
    takes_all = one.allocationMode == ALL
    return Wanted(
        name, parent, one.deviceClassName, one.selectors, one.count or 1, takes_all, is_admin, one.tolerations
    )


def _holds(constraint: DeviceConstraint, given: Sequence[Given]) -> bool:
    about = [
        one
        for one in given
        if not constraint.requests or {one.wanted.name, one.wanted.parent}.intersection(constraint.requests)
    ]
    name = constraint.matchAttribute or constraint.distinctAttribute
    if not name or not about:
        return True
    values = [_attribute(one.candidate, name) for one in about]
    if None in values:
        return False
    return len(set(values)) == (1 if constraint.matchAttribute else len(values))


def _attribute(candidate: Candidate, name: str) -> object:
    """By its full name; the driver's own may leave the domain out in the slice."""
    attributes = candidate.device.attributes
    domain, _, own = name.rpartition("/")
    found = attributes.get(name) or (attributes.get(own) if domain == candidate.id.driver else None)
    if found is None:
        return None
    pairs = (("string", found.string), ("int", found.int), ("bool", found.bool), ("version", found.version))
    return next(((kind, value) for kind, value in pairs if value is not None), None)


def _consumed(device: Any) -> Iterator[tuple[tuple[str, str], int]]:
    for one in device.consumesCounters:
        for counter, amount in one.counters.items():
            yield (one.counterSet, counter), parse(amount.value).milli_value()


def _tolerated(taint: Any, tolerations: Sequence[DeviceToleration]) -> bool:
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return True
    for one in tolerations:
        if one.effect and one.effect != taint.effect:
            continue
        if one.key and one.key != taint.key:
            continue
        if one.operator == "Exists" or one.value == taint.value:
            return True
    return False


def _where(candidates: Sequence[Candidate], node: str) -> NodeSelector | None:
    """Nodes from which all of the devices can be used; None: all of them."""
    if any(one.node for one in candidates):
        field_ = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
        return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchFields=[field_])])
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for one in candidates:
        for term in (one.selector.nodeSelectorTerms or ())[:1] if one.selector is not None else ():
            expressions += [found for found in term.matchExpressions if found not in expressions]
            fields += [found for found in term.matchFields if found not in fields]
    if not expressions and not fields:
        return None
    return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=expressions, matchFields=fields)])


__all__ = ["AllocationFailed", "Allocator", "alternatives"]
