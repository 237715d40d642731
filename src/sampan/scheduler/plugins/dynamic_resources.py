"""DynamicResources: devices for the resource claims of a pod, found by what they say of themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from sampan.api import times
from sampan.api.types.core_v1 import NodeSelector, Pod
from sampan.api.types.resource_v1 import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.copies import copy_of
from sampan.scheduler.arg_faults import refuse, timeouts
from sampan.scheduler.arrays import Codes, Ints, Rows, count_of, numbers_of
from sampan.scheduler.devices.allocator import AllocationFailed, Allocator, alternatives
from sampan.scheduler.devices.claims import (
    FINALIZER,
    ClaimAmiss,
    can_be_reserved,
    claims_of,
    is_reserved_for,
    reference_to,
)
from sampan.scheduler.devices.ledger import Ledger
from sampan.scheduler.devices.pools import Pool, newest, nodes_with_devices
from sampan.scheduler.devices.selectors import Selectors
from sampan.scheduler.diagnosis import Diagnosis
from sampan.scheduler.framework.contract import (
    SKIP,
    Action,
    ClusterEvent,
    Code,
    Cycle,
    Events,
    Handle,
    PostFilterResult,
    Resource,
    Scope,
    Status,
)
from sampan.scheduler.node_selection import matches_any
from sampan.scheduler.normalizing import proportional
from sampan.scheduler.plugin_args import read_args
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.reports import followed

UNAVAILABLE = "resourceclaim not available on the node"
TOO_FEW = "cannot allocate all claims"
_MOST_ALTERNATIVES = 8
_TRIES = 5


@dataclass(slots=True)
class _State:
    claims: list[ResourceClaim]
    allocator: Allocator | None
    """None if all claims have their devices."""
    results: dict[int, list[AllocationResult]] = field(default_factory=dict)
    """By row, for the claims without devices in their order."""
    unavailable: set[str] = field(default_factory=set)
    """Uids of claims whose devices some node cannot use."""
    promised: dict[str, AllocationResult] = field(default_factory=dict)
    """By uid of the claim, since `reserve`."""

    @property
    def open(self) -> list[ResourceClaim]:
        return [claim for claim in self.claims if claim.status.allocation is None]


class DeviceArgs(msgspec.Struct, forbid_unknown_fields=True):
    """Checked only: a search on one node is bounded by its own steps, and bindings wait for no conditions."""

    filterTimeout: str | None = None
    bindingTimeout: str | None = None


class DynamicResources:
    name = "DynamicResources"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, DeviceArgs)
        refuse(timeouts(args.filterTimeout, args.bindingTimeout))
        claims = followed(handle, ResourceClaim, Resource.RESOURCE_CLAIM)
        slices = followed(handle, ResourceSlice, Resource.RESOURCE_SLICE)
        self._claims, self._slices = claims.lister, slices.lister
        self._classes = followed(handle, DeviceClass, Resource.DEVICE_CLASS).lister
        self._client, self._clock, self._table = handle.client.of(ResourceClaim), handle.clock, handle.table
        self._ledger, self._selectors = Ledger(claims), Selectors()
        self._pools: list[Pool] | None = None
        slices.subscribe(self._slice_changed)

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        if not info.pod.spec.resourceClaims:
            return None
        try:
            claims_of(info.pod, self._claims.get)
        except ClaimAmiss as fault:
            return Status(Code.UNRESOLVABLE, (str(fault),))
        return None

    def pre_filter(self, cycle: Cycle) -> Status | None:
        if not cycle.pod.spec.resourceClaims:
            return SKIP
        try:
            claims = claims_of(cycle.pod, self._claims.get)
        except ClaimAmiss as fault:
            return Status(Code.UNRESOLVABLE, (str(fault),))
        if not claims:
            return SKIP
        for claim in claims:
            if (why := self._hindrance(claim, cycle.pod)) is not None:
                return Status(Code.UNRESOLVABLE, (why,))
        state = cycle.memo[self.name] = _State(claims, None)
        if state.open:
            state.allocator = Allocator(
                pools=self._newest(),
                allocated=self._ledger.allocated(),
                find_class=self._classes.get,
                selectors=self._selectors,
            )
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        state: _State = cycle.memo[self.name]
        found = np.zeros(count_of(rows), dtype=np.int32)
        for claim in state.claims:
            where = claim.status.allocation.nodeSelector if claim.status.allocation is not None else None
            if where is not None:
                far = ~matches_any(self._table, where.nodeSelectorTerms or (), rows)
                if far.any():
                    state.unavailable.add(claim.metadata.uid)
                    found[far] = cycle.refuse(self.name, UNAVAILABLE, is_final=True)
        if state.allocator is not None:
            bare = cycle.refuse(self.name, TOO_FEW, is_final=True)
            stocked = nodes_with_devices(self._newest())
            for at, row in enumerate(numbers_of(rows).tolist()):
                if not found[at] and self._table.valid[row]:
                    has_some = stocked is None or self._table.names[row] in stocked
                    found[at] = self._allocate(cycle, state, row) if has_some else bare
        return found

    async def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Devices that some node cannot use, and nobody else has, are given back: others may do."""
        state: _State | None = cycle.memo.get(self.name)
        if state is None:
            return PostFilterResult(message="no new claims to deallocate")
        for claim in state.claims:
            others = [one for one in claim.status.reservedFor if one.uid != cycle.info.uid]
            if claim.metadata.uid in state.unavailable and not others:
                changed = copy_of(claim)
                changed.status.reservedFor, changed.status.allocation, changed.status.devices = [], None, []
                await self._client.update_status(changed)
                return PostFilterResult(message="deallocation of ResourceClaim completed")
        return PostFilterResult(message="still not schedulable")

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        state: _State | None = cycle.memo.get(self.name)
        has_choice = state is not None and any(
            request.firstAvailable for claim in state.open for request in claim.spec.devices.requests or ()
        )
        return None if has_choice else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Alternatives that come first in their list are better."""
        state: _State = cycle.memo[self.name]
        return np.array([_rank(state, row) for row in numbers_of(rows).tolist()], dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return proportional(scores)

    def reserve(self, cycle: Cycle, node: str) -> Status | None:
        state: _State | None = cycle.memo.get(self.name)
        if state is None or not state.open:
            return None
        results = state.results.get(self._table.rows[node])
        if results is None:
            return Status(Code.ERROR, ("claim allocation not found for node",))
        for claim, result in zip(state.open, results, strict=True):
            state.promised[claim.metadata.uid] = result
            self._ledger.promise(claim, result)
        return None

    def unreserve(self, cycle: Cycle, node: str) -> None:
        state: _State | None = cycle.memo.get(self.name)
        if state is not None:
            for claim in state.claims:
                if state.promised.pop(claim.metadata.uid, None) is not None:
                    self._ledger.withdraw(claim)

    def has_pre_bind(self, cycle: Cycle, node: str) -> bool:
        return self.name in cycle.memo

    async def pre_bind(self, cycle: Cycle, node: str) -> Status | None:
        """Write devices and reservations to the claims."""
        state: _State | None = cycle.memo.get(self.name)
        if state is None:  # another plug-in has something to do
            return None
        for claim in state.claims:
            if not is_reserved_for(claim, cycle.pod):
                try:
                    await self._bind(claim, state.promised.get(claim.metadata.uid), cycle.pod)
                except (errors.ApiError, ConnectionFailed, ClaimAmiss) as fault:
                    return Status(Code.ERROR, (str(fault),))
        return None

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_ALLOCATABLE), None),
            (ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD), self._concerns),
            (ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE), self._concerns),
            (ClusterEvent(Resource.RESOURCE_CLAIM, Action.DELETE), lambda info, old, new: bool(old.status.allocation)),
            (ClusterEvent(Resource.DEVICE_CLASS, Action.ADD), None),
            (ClusterEvent(Resource.DEVICE_CLASS, Action.UPDATE), None),
            (ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD), None),
            (ClusterEvent(Resource.RESOURCE_SLICE, Action.UPDATE), None),
        ]

    # -- parts -------------------------------------------------------------------------------------------------------

    def _hindrance(self, claim: ResourceClaim, pod: Pod) -> str | None:
        if claim.status.allocation is not None:
            free = can_be_reserved(claim) or is_reserved_for(claim, pod)
            return None if free else "resourceclaim in use"
        if self._ledger.pending(claim) is not None:
            whole = f"{claim.metadata.namespace}/{claim.metadata.name}"
            return f"resource claim {whole} is in the process of being allocated"
        for request in claim.spec.devices.requests or ():
            for wanted in alternatives(request):
                if self._classes.get(wanted.class_name) is None:
                    return f"request {wanted.name}: device class {wanted.class_name} does not exist"
        return None

    def _allocate(self, cycle: Cycle, state: _State, row: int) -> int:
        assert state.allocator is not None

        def matches(selector: NodeSelector) -> bool:
            here = matches_any(self._table, selector.nodeSelectorTerms or (), np.array([row], dtype=np.intp))
            return bool(here[0])

        try:
            found = state.allocator.allocate(state.open, self._table.names[row], matches)
        except AllocationFailed as fault:
            return cycle.refuse(self.name, str(fault), is_final=True)
        if found is None:
            return cycle.refuse(self.name, TOO_FEW, is_final=True)
        state.results[row] = found
        return 0

    async def _bind(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> None:
        for attempt in range(_TRIES):
            try:
                await self._write(claim, allocation, pod)
                return
            except errors.Conflict:
                if attempt == _TRIES - 1:
                    raise
                claim = await self._client.get(claim.metadata.name, claim.metadata.namespace)

    async def _write(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> None:
        whole = f"{claim.metadata.namespace}/{claim.metadata.name}"
        if claim.metadata.deletionTimestamp is not None:
            raise ClaimAmiss(f"claim {whole} got deleted in the meantime")
        changed = copy_of(claim)
        if allocation is not None:
            if claim.status.allocation is not None:
                raise ClaimAmiss(f"claim {whole} got allocated elsewhere in the meantime")
            if FINALIZER not in changed.metadata.finalizers:
                changed.metadata.finalizers = [*changed.metadata.finalizers, FINALIZER]
                changed = copy_of(await self._client.update(changed))
            changed.status.allocation = copy_of(allocation)
        if changed.status.allocation is None:
            raise ClaimAmiss(f"claim {whole} got deallocated elsewhere in the meantime")
        changed.status.allocation.allocationTimestamp = changed.status.allocation.allocationTimestamp or self._now()
        changed.status.reservedFor = [*changed.status.reservedFor, reference_to(pod)]
        await self._client.update_status(changed)

    def _concerns(self, info: PodInfo, old: Any, new: Any) -> bool:
        """The pod's own claim came or changed, or devices of another are free again."""
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return True
        try:
            own = claims_of(info.pod, self._claims.get)
        except ClaimAmiss:
            return False
        if not any(claim.metadata.uid == new.metadata.uid for claim in own):
            return False
        return old is None or bool(old.status != new.status)

    def _newest(self) -> list[Pool]:
        if self._pools is None:
            self._pools = newest(self._slices)
        return self._pools

    def _slice_changed(self, old: Any, new: Any) -> None:
        self._pools = None

    def _now(self) -> str:
        return times.format_time(self._clock.now())


def _rank(state: _State, row: int) -> int:
    total = 0
    for claim, result in zip(state.open, state.results.get(row, ()), strict=False):
        given = {one.request for one in result.devices.results}
        for request in claim.spec.devices.requests or ():
            for place, sub in enumerate(request.firstAvailable):
                if f"{request.name}/{sub.name}" in given:
                    total += _MOST_ALTERNATIVES - place
    return total
