"""DynamicResources: allocates devices to the resource claims of a pod.

Extended resources that device classes provide, and the node itself does not, are treated as one more claim.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Generator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from sampan.api.semantics.resource_claims import can_be_reserved, is_reserved_for
from sampan.api.types.core_v1 import Pod
from sampan.api.types.resource_v1 import ResourceClaim
from sampan.api.values.durations import parse_duration
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.informer import by_owner
from sampan.scheduler.cache.arrays import Codes, Ints, Rows, numbers_of
from sampan.scheduler.cache.node_selectors import matches_any
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.config.plugin_args import check_device_timeouts, raise_if_invalid, read_args
from sampan.scheduler.cycle.decision_recorder import NORMAL
from sampan.scheduler.devices.allocation_cache import FITS, run_to_end
from sampan.scheduler.devices.claim_requests import class_names
from sampan.scheduler.devices.device_inventory import device_inventory
from sampan.scheduler.devices.device_selectors import Job, Pause
from sampan.scheduler.devices.extended_resources import is_extended_resource_claim
from sampan.scheduler.devices.pod_allocation import AllocationGroup, PodAllocator, PodClaimState, allocation_result
from sampan.scheduler.devices.resource_claims import (
    ClaimBindingFailed,
    ClaimWriter,
    UnusableResourceClaim,
    has_binding_conditions,
    has_failed,
    resource_claims_of,
)
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, Code, CycleState, PluginScope, PostFilterResult, Status
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.framework.scores import normalize_to_highest

log = logging.getLogger(__name__)

UNAVAILABLE = "resourceclaim not available on the node"
LEFTOVER = "cannot schedule extended resource claim"
NO_NEW_CLAIMS, STILL_UNSCHEDULABLE = "no new claims to deallocate", "still not schedulable"
_STEPS_PER_S = 20_000
"""The number of search steps that stand for one second of `filterTimeout`. A search is limited by its number of steps,
not by a clock, so that its outcome is reproducible."""
_YIELD_INTERVAL_S = 0.005
_MAX_ROUNDS = 10


class DynamicResourcesArgs(msgspec.Struct, forbid_unknown_fields=True):
    filterTimeout: str | None = None
    """The time limit of the search on one node, converted to a number of steps; zero for no limit."""
    bindingTimeout: str | None = None
    """How long devices may take to become ready."""


class _AllocationProgress(NamedTuple):
    """The state of an allocation that continues after its job has run in a thread."""

    is_complete: bool
    job: Job | None = None
    """The job to run in a thread before the allocation continues."""


class DynamicResources:
    name = "DynamicResources"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, DynamicResourcesArgs)
        raise_if_invalid(check_device_timeouts(args.filterTimeout, args.bindingTimeout))
        self._binding_s = parse_duration(args.bindingTimeout or "600s") / 1e9
        inventory = device_inventory(handle)
        self._claims, self._classes, self._allocated = (
            inventory.claims.lister,
            inventory.classes,
            inventory.allocated_devices,
        )
        self._table, self._clock, self._publish_event = handle.table, handle.clock, handle.publish_event
        max_steps = int(parse_duration(args.filterTimeout or "10s") / 1e9 * _STEPS_PER_S)
        self._worker = WorkerThread("sampan-device-selectors")
        self._allocator = PodAllocator(table=handle.table, inventory=inventory, max_steps=max_steps)
        self._writes = ClaimWriter(
            client=handle.client,
            clock=handle.clock,
            claims=inventory.claims,
            allocated_devices=inventory.allocated_devices,
        )

    # -- before filtering --------------------------------------------------------------------------------------------

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        if not info.pod.spec.resourceClaims:
            return None
        try:
            resource_claims_of(info.pod, self._claims.get)
        except UnusableResourceClaim as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        return None

    def prepare(self, cycle: CycleState) -> Awaitable[None] | None:
        """Allocate for nodes without a cached outcome; return None if that takes no longer than one turn."""
        if not self._is_relevant(cycle):
            return None
        state = self._state(cycle)
        if not isinstance(state, PodClaimState) or state.leftover_claim is not None:
            return None
        rows = np.flatnonzero(self._table.valid[self._table.every_row])
        work = self._allocator.catch_up(state, cycle.pod, rows)
        progress = _run_turn(work)
        return None if progress.is_complete else self._finish_preparing(state, cycle.pod, work, progress)

    async def _finish_preparing(
        self, state: PodClaimState, pod: Pod, work: Generator[Pause, None, None], progress: _AllocationProgress
    ) -> None:
        for _ in range(_MAX_ROUNDS):
            while not progress.is_complete:
                await (asyncio.sleep(0) if progress.job is None else self._worker.run(progress.job))
                progress = _run_turn(work)
            rows = np.flatnonzero(self._table.valid[self._table.every_row])
            if self._allocator.is_known(state, pod, rows):
                return
            work = self._allocator.catch_up(state, pod, rows)
            progress = _run_turn(work)

    def pre_filter(self, cycle: CycleState) -> Status | None:
        if not self._is_relevant(cycle):
            return SKIP
        state = self._state(cycle)
        if isinstance(state, Status):
            return state
        cycle.memo[self.name] = state
        return None

    # -- filtering and scoring ---------------------------------------------------------------------------------------

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        state: PodClaimState = cycle.memo[self.name]
        numbers = numbers_of(rows)
        if state.leftover_claim is not None:
            return np.full(len(numbers), cycle.reject(self.name, LEFTOVER, is_final=True), dtype=np.int32)
        codes = np.zeros(len(numbers), dtype=np.int32)
        run_to_end(self._allocator.catch_up(state, cycle.pod, numbers))
        for among, group in self._allocator.groups(state, cycle.pod, numbers):
            codes[among] = self._codes(cycle, group, numbers[among])
        for claim in state.claims:
            self._reject_unreachable(cycle, state, claim, numbers, codes)
        return codes

    def _codes(self, cycle: CycleState, group: AllocationGroup, rows: NDArray[np.intp]) -> Codes:
        outcomes = group.outcomes.outcomes(rows)
        codes = np.zeros(len(group.outcomes.refusals) + 1, dtype=np.int32)
        for outcome in np.flatnonzero(np.bincount(outcomes, minlength=len(codes))).tolist():
            if outcome != FITS:
                why = group.outcomes.refusals[outcome - 1].text_for(group.claims)
                codes[outcome] = cycle.reject(self.name, why, is_final=True)
        row_codes: Codes = codes[outcomes]
        return row_codes

    def _reject_unreachable(
        self, cycle: CycleState, state: PodClaimState, claim: ResourceClaim, rows: NDArray[np.intp], codes: Codes
    ) -> None:
        """Reject the nodes that cannot use the devices allocated to the claim."""
        node_selector = claim.status.allocation.nodeSelector if claim.status.allocation is not None else None
        if has_failed(claim, self._clock.now(), self._binding_s):
            far = codes == 0
        elif node_selector is not None:
            far = (codes == 0) & ~matches_any(self._table, node_selector.nodeSelectorTerms or (), rows)
        else:
            return
        if far.any():
            state.unavailable.add(claim.metadata.uid)
            codes[far] = cycle.reject(self.name, UNAVAILABLE, is_final=True)

    async def post_filter(self, cycle: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """Deallocate a claim that some node cannot use and no other pod has reserved, so that other devices can be
        tried.
        """
        state: PodClaimState | None = cycle.memo.get(self.name)
        if state is None:
            return PostFilterResult(message=NO_NEW_CLAIMS)
        for claim in state.claims:
            others = [consumer for consumer in claim.status.reservedFor if consumer.uid != cycle.info.uid]
            if claim.metadata.uid in state.unavailable and not others:
                await self._writes.deallocate(claim)
                return PostFilterResult(message="deallocation of ResourceClaim completed")
        if state.leftover_claim is not None:
            await self._writes.remove(state.leftover_claim)
            return PostFilterResult(message="deletion of ResourceClaim completed")
        return PostFilterResult(message=STILL_UNSCHEDULABLE)

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        state: PodClaimState | None = cycle.memo.get(self.name)
        has_choice = state is not None and any(
            request.firstAvailable for claim in state.unallocated for request in claim.spec.devices.requests or ()
        )
        return None if has_choice else SKIP

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        """Rank nodes by their alternatives: earlier entries of a `firstAvailable` list score higher."""
        state: PodClaimState = cycle.memo[self.name]
        numbers = numbers_of(rows)
        scores = np.zeros(len(numbers), dtype=np.int64)
        run_to_end(self._allocator.catch_up(state, cycle.pod, numbers))
        for among, group in self._allocator.groups(state, cycle.pod, numbers):
            scores[among] = group.outcomes.ranks(numbers[among])
        return scores

    def normalize(self, cycle: CycleState, scores: Ints) -> Ints:
        return normalize_to_highest(scores)

    # -- reserving and binding ---------------------------------------------------------------------------------------

    def reserve(self, cycle: CycleState, node: str) -> Status | None:
        state: PodClaimState | None = cycle.memo.get(self.name)
        if state is None:
            return None
        row = np.array([self._table.rows[node]], dtype=np.intp)
        run_to_end(self._allocator.catch_up(state, cycle.pod, row))
        for _, group in self._allocator.groups(state, cycle.pod, row):
            devices_by_claim = group.outcomes.allocations(int(row[0]))
            if devices_by_claim is None:
                return Status(Code.ERROR, ("claim allocation not found for node",))
            state.extended_claim = group.extended_claim
            for claim, claim_requests, devices in zip(
                group.claims, group.outcomes.pod_requests.claims, devices_by_claim, strict=True
            ):
                result = state.allocations[claim.metadata.uid] = allocation_result(claim_requests, devices, node)
                self._allocated.add_pending(claim.metadata.uid, result)
        return None

    def unreserve(self, cycle: CycleState, node: str) -> None:
        state: PodClaimState | None = cycle.memo.get(self.name)
        for uid in state.allocations if state is not None else ():
            self._allocated.remove_pending(uid)

    def has_pre_bind(self, cycle: CycleState, node: str) -> bool:
        state: PodClaimState | None = cycle.memo.get(self.name)
        return state is not None and bool(state.claims or state.extended_claim is not None)

    async def pre_bind(self, cycle: CycleState, node: str) -> Status | None:
        """Write allocations and reservations to the claims and wait until the devices are ready."""
        state: PodClaimState | None = cycle.memo.get(self.name)
        if state is None:  # PreBind runs for another plugin
            return None
        try:
            for index, claim in enumerate(state.claims):
                if not is_reserved_for(claim, cycle.pod):
                    allocations = state.allocations.get(claim.metadata.uid)
                    state.claims[index] = await self._writes.bind(claim, allocations, cycle.pod)
            if state.extended_claim is not None:
                await self._bind_extended_claim(state, cycle.pod)
            if any(has_binding_conditions(claim) for claim in state.written):
                note = f"waiting for binding conditions for device on node {node}"
                self._publish_event(cycle.info, NORMAL, "BindingConditionsPending", "Scheduling", note)
                await self._writes.wait(state.written, self._binding_s)
        except (errors.ApiError, ConnectionFailed, ClaimBindingFailed) as error:
            return Status(Code.ERROR, (str(error),))
        return None

    async def _bind_extended_claim(self, state: PodClaimState, pod: Pod) -> None:
        assert state.extended_claim is not None
        state.created_claim = await self._writes.create(state.extended_claim.claim)
        allocations = state.allocations.pop(state.extended_claim.claim.metadata.uid)
        state.allocations[state.created_claim.metadata.uid] = allocations
        state.created_claim = await self._writes.bind(state.created_claim, allocations, pod)
        await self._writes.write_pod_status(pod, state.created_claim, state.extended_claim.mappings)

    async def rollback_pre_bind(self, cycle: CycleState, node: str) -> None:
        """Release the claims that were reserved for a pod that is not bound."""
        state: PodClaimState | None = cycle.memo.get(self.name)
        if state is None:
            return
        try:
            for claim in state.claims:
                await self._writes.release(claim, cycle.pod)
            if state.created_claim is not None:
                await self._writes.remove(state.created_claim)
        except (errors.ApiError, ConnectionFailed) as error:  # the next attempt tries again
            log.warning("cannot release the resource claims of pod %s: %s", cycle.info.full_name, error)

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_ALLOCATABLE), None),
            (ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.ADD), self._concerns_pod),
            (ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.UPDATE), self._concerns_pod),
            (ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.DELETE), _frees_devices),
            (ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD), None),
            (ClusterEvent(EventResource.DEVICE_CLASS, ActionType.UPDATE), None),
            (ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.ADD), None),
            (ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.UPDATE), None),
        ]

    # -- parts -------------------------------------------------------------------------------------------------------

    def _is_relevant(self, cycle: CycleState) -> bool:
        return bool(cycle.pod.spec.resourceClaims) or bool(self._select_device_resources(cycle))

    def _select_device_resources(self, cycle: CycleState) -> tuple[str, ...]:
        served = self._table.device_resources
        return tuple(name for name in sorted(cycle.signature.requests) if name in served) if served else ()

    def _state(self, cycle: CycleState) -> PodClaimState | Status:
        try:
            claims = resource_claims_of(cycle.pod, self._claims.get)
        except UnusableResourceClaim as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        extended = self._select_device_resources(cycle)
        if not claims and not extended:
            return SKIP
        for claim in claims:
            if (why := self._explain_unusable_claim(claim, cycle.pod)) is not None:
                return Status(Code.UNRESOLVABLE, (why,))
        return PodClaimState(claims, extended, self._leftover_claim(cycle.pod) if extended else None)

    def _leftover_claim(self, pod: Pod) -> ResourceClaim | None:
        own = self._claims.find(by_owner, pod.metadata.uid)
        return next((claim for claim in own if is_extended_resource_claim(claim, pod)), None)

    def _explain_unusable_claim(self, claim: ResourceClaim, pod: Pod) -> str | None:
        if claim.status.allocation is not None:
            free = can_be_reserved(claim) or is_reserved_for(claim, pod)
            return None if free else "resourceclaim in use"
        if self._allocated.is_pending(claim.metadata.uid):
            whole = f"{claim.metadata.namespace}/{claim.metadata.name}"
            return f"resource claim {whole} is in the process of being allocated"
        for request in claim.spec.devices.requests or ():
            for name, class_name in class_names(request):
                if self._classes.get(class_name) is None:
                    return f"request {name}: device class {class_name} does not exist"
        return None

    def _concerns_pod(self, info: PodInfo, old: Any, new: Any) -> bool:
        """Whether a claim of the pod was added or changed, or another claim was deallocated."""
        try:
            own = resource_claims_of(info.pod, self._claims.get)
        except UnusableResourceClaim:
            return False
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return True
        if not any(claim.metadata.uid == new.metadata.uid for claim in own):
            return False
        return old is None or bool(old.status != new.status)


def _frees_devices(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the deleted claim frees devices, or was the leftover extended resource claim of the pod."""
    return old.status.allocation is not None or is_extended_resource_claim(old, info.pod)


def _run_turn(work: Generator[Pause, None, None]) -> _AllocationProgress:
    """Run the work for one turn, or until it comes to a job."""
    end = time.perf_counter() + _YIELD_INTERVAL_S
    for job in work:
        if job is not None or time.perf_counter() > end:
            return _AllocationProgress(is_complete=False, job=job)
    return _AllocationProgress(is_complete=True)
