"""Device allocation for the claims of one pod on all nodes, and its conversion to the status of the claims.

The outcomes are cached for pods with equal requests (`allocation_cache`); `PodClaimState` is the state of one attempt.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampan.api.types.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from sampan.api.types.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from sampan.scheduler.cache.arrays import Flags
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.devices.allocation_cache import AllocationCache
from sampan.scheduler.devices.allocator import AllocatedDevice
from sampan.scheduler.devices.claim_requests import (
    ClaimRequests,
    claim_requests_key,
    read_claim_requests,
)
from sampan.scheduler.devices.device_inventory import DeviceInventory
from sampan.scheduler.devices.device_selectors import DeviceSelectors, Pause
from sampan.scheduler.devices.extended_resources import ExtendedResourceClaim, build_extended_resource_claim
from sampan.scheduler.devices.pools import CandidateDevice


class AllocationGroup(NamedTuple):
    """The claims that have to be allocated on some of the nodes."""

    claims: Sequence[ResourceClaim]
    """Unallocated claims; the claim for extended resources comes last."""
    extended_claim: ExtendedResourceClaim | None
    outcomes: AllocationCache


@dataclass(slots=True)
class PodClaimState:
    claims: list[ResourceClaim]
    """The claims that the pod refers to, as last written."""
    extended: tuple[str, ...] = ()
    """Extended resources that the pod requests and that device classes provide."""
    leftover_claim: ResourceClaim | None = None
    """A claim for extended resources that was left behind by a failed attempt."""
    groups: dict[tuple[str, ...], AllocationGroup | None] = field(default_factory=dict)
    """Claims to allocate, by the extended resources that a node must provide as devices; None if there are none."""
    unavailable: set[str] = field(default_factory=set)
    """UIDs of allocated claims whose devices some node cannot use."""
    allocations: dict[str, AllocationResult] = field(default_factory=dict)
    """The pending allocations that the Reserve step has recorded, by claim UID."""
    extended_claim: ExtendedResourceClaim | None = None
    """The claim for extended resources on the selected node."""
    created_claim: ResourceClaim | None = None
    """The claim for extended resources as created on the server."""

    @property
    def unallocated(self) -> list[ResourceClaim]:
        return [claim for claim in self.claims if claim.status.allocation is None]

    @property
    def written(self) -> list[ResourceClaim]:
        return [*self.claims, *([self.created_claim] if self.created_claim is not None else [])]


_MAX_CACHED_ALLOCATIONS = 128


class PodAllocator:
    def __init__(
        self,
        *,
        table: NodeTable,
        inventory: DeviceInventory,
        max_steps: int,
    ) -> None:
        self._table, self._views, self._allocated_devices = table, inventory.views, inventory.allocated_devices
        self._classes, self._extended_resource_classes, self._max_steps = (
            inventory.classes,
            inventory.extended_resource_classes,
            max_steps,
        )
        self._selectors = DeviceSelectors()
        self._caches: OrderedDict[bytes, AllocationCache] = OrderedDict()

    def groups(
        self, state: PodClaimState, pod: Pod, rows: NDArray[np.intp]
    ) -> Iterator[tuple[Flags | slice, AllocationGroup]]:
        """Yield groups of rows with the claims to allocate there; rows without anything to allocate are omitted."""
        if not state.extended:
            group = self.group(state, pod, ())
            if group is not None:
                yield slice(None), group
            return
        bits = np.zeros(len(rows), dtype=np.int64)
        for bit, name in enumerate(state.extended):
            column = self._table.resource(name)
            lacking = self._table.allocatable[column, rows] == 0
            bits |= lacking.astype(np.int64) << bit
        for pattern in np.unique(bits).tolist():
            names = tuple(name for bit, name in enumerate(state.extended) if pattern >> bit & 1)
            group = self.group(state, pod, names)
            if group is not None:
                yield bits == pattern, group

    def group(self, state: PodClaimState, pod: Pod, names: tuple[str, ...]) -> AllocationGroup | None:
        if names not in state.groups:
            extended_claim = (
                build_extended_resource_claim(pod, names, self._extended_resource_classes.find_class) if names else None
            )
            claims = [*state.unallocated, *([extended_claim.claim] if extended_claim is not None else [])]
            state.groups[names] = (
                AllocationGroup(claims, extended_claim, self._allocation_cache(claims)) if claims else None
            )
        return state.groups[names]

    def catch_up(self, state: PodClaimState, pod: Pod, rows: NDArray[np.intp]) -> Generator[Pause, None, None]:
        """Compute the missing outcomes of these rows, yielding now and then so that other tasks can run."""
        for among, group in list(self.groups(state, pod, rows)):
            yield from group.outcomes.catch_up(rows[among])

    def is_known(self, state: PodClaimState, pod: Pod, rows: NDArray[np.intp]) -> bool:
        return all(group.outcomes.is_known(rows[among]) for among, group in self.groups(state, pod, rows))

    def _allocation_cache(self, claims: list[ResourceClaim]) -> AllocationCache:
        key = claim_requests_key(claims, self._classes.get)
        outcomes = self._caches.get(key)
        if outcomes is None:
            self._views.refresh()
            outcomes = self._caches[key] = AllocationCache(
                pod_requests=read_claim_requests(claims, self._classes.get),
                views=self._views,
                allocated_devices=self._allocated_devices,
                selectors=self._selectors,
                max_steps=self._max_steps,
            )
            if len(self._caches) > _MAX_CACHED_ALLOCATIONS:
                self._caches.popitem(last=False)
        else:
            self._caches.move_to_end(key)
        return outcomes


def allocation_result(claim: ClaimRequests, allocated: Sequence[AllocatedDevice], node: str) -> AllocationResult:
    devices = DeviceAllocationResult(
        results=[_result(device) for device in allocated],
        config=[*_class_configs(allocated), *_claim_configs(claim, allocated)],
    )
    return AllocationResult(
        devices=devices, nodeSelector=_node_selector([device.candidate for device in allocated], node)
    )


def _result(allocated: AllocatedDevice) -> DeviceRequestAllocationResult:
    device, id = allocated.candidate.device, allocated.candidate.id
    return DeviceRequestAllocationResult(
        request=allocated.request.name,
        driver=id.driver,
        pool=id.pool,
        device=id.device,
        adminAccess=True if allocated.request.is_admin else None,
        tolerations=list(allocated.request.tolerations),
        bindingConditions=list(device.bindingConditions),
        bindingFailureConditions=list(device.bindingFailureConditions),
        shareID=str(uuid.uuid4()) if allocated.candidate.is_shared else None,
        consumedCapacity={name: str(amount) for name, amount in allocated.consumed.items()},
    )


def _class_configs(allocated: Sequence[AllocatedDevice]) -> Iterator[DeviceAllocationConfiguration]:
    """Yield the configurations of the device classes, each once for all requests of its class."""
    requests: dict[str, list[str]] = {}
    classes = {}
    for request in dict.fromkeys(device.request for device in allocated):
        if request.device_class is not None:
            name = request.device_class.metadata.name
            classes[name] = request.device_class
            requests.setdefault(name, []).append(request.name)
    for name, device_class in classes.items():
        for config in device_class.spec.config:
            yield DeviceAllocationConfiguration(source="FromClass", requests=requests[name], opaque=config.opaque)


def _claim_configs(
    claim: ClaimRequests, allocated: Sequence[AllocatedDevice]
) -> Iterator[DeviceAllocationConfiguration]:
    names = {name for device in allocated for name in (device.request.name, device.request.parent)}
    for own in claim.devices.config:
        if not own.requests or names.intersection(own.requests):
            yield DeviceAllocationConfiguration(source="FromClaim", requests=own.requests, opaque=own.opaque)


def _node_selector(candidates: Sequence[CandidateDevice], node: str) -> NodeSelector | None:
    """Return a selector for the nodes that can use all of the devices, or None for all nodes."""
    if any(candidate.node or candidate.device.bindsToNode for candidate in candidates):
        field = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
        return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchFields=[field])])
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for candidate in candidates:
        for term in (candidate.selector.nodeSelectorTerms or ())[:1] if candidate.selector is not None else ():
            expressions += [
                requirement for requirement in term.matchExpressions if not _is_listed(requirement, expressions)
            ]
            fields += [requirement for requirement in term.matchFields if not _is_listed(requirement, fields)]
    if not expressions and not fields:
        return None
    return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=expressions, matchFields=fields)])


def _is_listed(request: NodeSelectorRequirement, others: Sequence[NodeSelectorRequirement]) -> bool:
    return any(
        (other.key, other.operator, set(other.values)) == (request.key, request.operator, set(request.values))
        for other in others
    )
