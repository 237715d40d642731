"""Conversion of an allocation to the status of a ResourceClaim. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from sampan.api.types.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from sampan.api.types.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from sampan.scheduler.devices.pools import Candidate
from sampan.scheduler.devices.search import Taken
from sampan.scheduler.devices.wants import MOST_ALTERNATIVES, ClaimWants


def allocation(claim: ClaimWants, found: Sequence[Taken], node: str) -> AllocationResult:
    devices = DeviceAllocationResult(
        results=[_result(device) for device in found], config=[*_of_classes(found), *_of_claim(claim, found)]
    )
    return AllocationResult(devices=devices, nodeSelector=_where([device.candidate for device in found], node))


def rank(claim: ClaimWants, found: Sequence[Taken]) -> int:
    """Return a rank that is higher the earlier the chosen alternatives are in their `firstAvailable` lists."""
    chosen = {device.wanted for device in found}
    return sum(
        MOST_ALTERNATIVES - index
        for request, spec in zip(claim.requests, claim.devices.requests or (), strict=True)
        for index, alternative in enumerate(request)
        if spec.firstAvailable and alternative in chosen
    )


def _result(one: Taken) -> DeviceRequestAllocationResult:
    device, id = one.candidate.device, one.candidate.id
    return DeviceRequestAllocationResult(
        request=one.wanted.name,
        driver=id.driver,
        pool=id.pool,
        device=id.device,
        adminAccess=True if one.wanted.is_admin else None,
        tolerations=list(one.wanted.tolerations),
        bindingConditions=list(device.bindingConditions),
        bindingFailureConditions=list(device.bindingFailureConditions),
        shareID=str(uuid.uuid4()) if one.candidate.is_shared else None,
        consumedCapacity={name: str(amount) for name, amount in one.consumed.items()},
    )


def _of_classes(found: Sequence[Taken]) -> Iterator[DeviceAllocationConfiguration]:
    """Yield the configurations of the device classes, each once for all requests of its class."""
    requests: dict[str, list[str]] = {}
    classes = {}
    for request in dict.fromkeys(device.wanted for device in found):
        if request.device_class is not None:
            name = request.device_class.metadata.name
            classes[name] = request.device_class
            requests.setdefault(name, []).append(request.name)
    for name, device_class in classes.items():
        for config in device_class.spec.config:
            yield DeviceAllocationConfiguration(source="FromClass", requests=requests[name], opaque=config.opaque)


def _of_claim(claim: ClaimWants, found: Sequence[Taken]) -> Iterator[DeviceAllocationConfiguration]:
    names = {name for device in found for name in (device.wanted.name, device.wanted.parent)}
    for own in claim.devices.config:
        if not own.requests or names.intersection(own.requests):
            yield DeviceAllocationConfiguration(source="FromClaim", requests=own.requests, opaque=own.opaque)


def _where(candidates: Sequence[Candidate], node: str) -> NodeSelector | None:
    """Return a selector for the nodes that can use all of the devices, or None for all nodes."""
    if any(candidate.node or candidate.device.bindsToNode for candidate in candidates):
        field = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
        return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchFields=[field])])
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for candidate in candidates:
        for term in (candidate.selector.nodeSelectorTerms or ())[:1] if candidate.selector is not None else ():
            expressions += [
                requirement for requirement in term.matchExpressions if not _is_among(requirement, expressions)
            ]
            fields += [requirement for requirement in term.matchFields if not _is_among(requirement, fields)]
    if not expressions and not fields:
        return None
    return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=expressions, matchFields=fields)])


def _is_among(wanted: NodeSelectorRequirement, others: Sequence[NodeSelectorRequirement]) -> bool:
    return any(
        (other.key, other.operator, set(other.values)) == (wanted.key, wanted.operator, set(wanted.values))
        for other in others
    )
