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

from sampan.api.durations import parse_duration
from sampan.api.types.core_v1 import Pod
from sampan.api.types.resource_v1 import ResourceClaim
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.informer import by_owner
from sampan.machinery.worker_thread import WorkerThread
from sampan.scheduler.arg_faults import refuse, timeouts
from sampan.scheduler.arrays import Codes, Ints, Rows, numbers_of
from sampan.scheduler.devices.answers import FITS, finished
from sampan.scheduler.devices.binding import BindingFailed, ClaimWrites
from sampan.scheduler.devices.claims import ClaimAmiss, can_be_reserved, claims_of, is_reserved_for
from sampan.scheduler.devices.extended import is_special
from sampan.scheduler.devices.finder import Finder
from sampan.scheduler.devices.inventory import inventory_of
from sampan.scheduler.devices.pod_state import Part, PodState
from sampan.scheduler.devices.readiness import has_conditions, is_hopeless
from sampan.scheduler.devices.results import allocation
from sampan.scheduler.devices.selectors import Job, Pause
from sampan.scheduler.devices.wants import class_names
from sampan.scheduler.diagnosis import Diagnosis
from sampan.scheduler.events import NORMAL
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

log = logging.getLogger(__name__)

UNAVAILABLE = "resourceclaim not available on the node"
STALE = "cannot schedule extended resource claim"
NOTHING_TO_DO, STILL_NOT = "no new claims to deallocate", "still not schedulable"
_STEPS_PER_S = 20_000
"""A search is limited by its number of steps, not by a clock, so that its outcome is reproducible."""
_TURN_S = 0.005
_MOST_ROUNDS = 10


class DeviceArgs(msgspec.Struct, forbid_unknown_fields=True):
    filterTimeout: str | None = None
    """The time limit of the search on one node, converted to a number of steps; zero for no limit."""
    bindingTimeout: str | None = None
    """How long devices may take to become ready."""


class _Progress(NamedTuple):
    """Where long-running work stopped."""

    is_complete: bool
    job: Job | None = None
    """What is to be done, in a thread, before the work continues."""


class DynamicResources:
    name = "DynamicResources"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, DeviceArgs)
        refuse(timeouts(args.filterTimeout, args.bindingTimeout))
        self._binding_s = parse_duration(args.bindingTimeout or "600s") / 1e9
        inventory = inventory_of(handle)
        self._claims, self._classes, self._ledger = inventory.claims.lister, inventory.classes, inventory.ledger
        self._table, self._clock, self._say = handle.table, handle.clock, handle.say
        most_steps = int(parse_duration(args.filterTimeout or "10s") / 1e9 * _STEPS_PER_S)
        self._worker = WorkerThread("sampan-device-selectors")
        self._finder = Finder(table=handle.table, inventory=inventory, most_steps=most_steps)
        self._writes = ClaimWrites(
            client=handle.client, clock=handle.clock, claims=inventory.claims, ledger=inventory.ledger
        )

    # -- before filtering --------------------------------------------------------------------------------------------

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        if not info.pod.spec.resourceClaims:
            return None
        try:
            claims_of(info.pod, self._claims.get)
        except ClaimAmiss as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        return None

    def prepare(self, cycle: Cycle) -> Awaitable[None] | None:
        """Allocate for nodes without a cached outcome; return None if that takes no longer than one turn."""
        if not self._has_say(cycle):
            return None
        state = self._state(cycle)
        if not isinstance(state, PodState) or state.stale is not None:
            return None
        rows = np.flatnonzero(self._table.valid[self._table.every_row])
        work = self._finder.catch_up(state, cycle.pod, rows)
        progress = _run_turn(work)
        return None if progress.is_complete else self._go_on(state, cycle.pod, work, progress)

    async def _go_on(self, state: PodState, pod: Pod, work: Generator[Pause, None, None], progress: _Progress) -> None:
        for _ in range(_MOST_ROUNDS):
            while not progress.is_complete:
                await (asyncio.sleep(0) if progress.job is None else self._worker.run(progress.job))
                progress = _run_turn(work)
            rows = np.flatnonzero(self._table.valid[self._table.every_row])
            if self._finder.is_known(state, pod, rows):
                return
            work = self._finder.catch_up(state, pod, rows)
            progress = _run_turn(work)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        if not self._has_say(cycle):
            return SKIP
        state = self._state(cycle)
        if isinstance(state, Status):
            return state
        cycle.memo[self.name] = state
        return None

    # -- filtering and scoring ---------------------------------------------------------------------------------------

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        state: PodState = cycle.memo[self.name]
        numbers = numbers_of(rows)
        if state.stale is not None:
            return np.full(len(numbers), cycle.refuse(self.name, STALE, is_final=True), dtype=np.int32)
        codes = np.zeros(len(numbers), dtype=np.int32)
        finished(self._finder.catch_up(state, cycle.pod, numbers))
        for among, part in self._finder.parts(state, cycle.pod, numbers):
            codes[among] = self._codes(cycle, part, numbers[among])
        for claim in state.claims:
            self._keep_near(cycle, state, claim, numbers, codes)
        return codes

    def _codes(self, cycle: Cycle, part: Part, rows: NDArray[np.intp]) -> Codes:
        verdicts = part.answers.verdicts(rows)
        codes = np.zeros(len(part.answers.refusals) + 1, dtype=np.int32)
        for verdict in np.flatnonzero(np.bincount(verdicts, minlength=len(codes))).tolist():
            if verdict != FITS:
                why = part.answers.refusals[verdict - 1].said(part.claims)
                codes[verdict] = cycle.refuse(self.name, why, is_final=True)
        row_codes: Codes = codes[verdicts]
        return row_codes

    def _keep_near(
        self, cycle: Cycle, state: PodState, claim: ResourceClaim, rows: NDArray[np.intp], found: Codes
    ) -> None:
        """Reject the nodes that cannot use the devices allocated to the claim."""
        where = claim.status.allocation.nodeSelector if claim.status.allocation is not None else None
        if is_hopeless(claim, self._clock.now(), self._binding_s):
            far = found == 0
        elif where is not None:
            far = (found == 0) & ~matches_any(self._table, where.nodeSelectorTerms or (), rows)
        else:
            return
        if far.any():
            state.unavailable.add(claim.metadata.uid)
            found[far] = cycle.refuse(self.name, UNAVAILABLE, is_final=True)

    async def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Deallocate a claim that some node cannot use and no other pod has reserved, so that other devices can be
        tried.
        """
        state: PodState | None = cycle.memo.get(self.name)
        if state is None:
            return PostFilterResult(message=NOTHING_TO_DO)
        for claim in state.claims:
            others = [consumer for consumer in claim.status.reservedFor if consumer.uid != cycle.info.uid]
            if claim.metadata.uid in state.unavailable and not others:
                await self._writes.deallocate(claim)
                return PostFilterResult(message="deallocation of ResourceClaim completed")
        if state.stale is not None:
            await self._writes.remove(state.stale)
            return PostFilterResult(message="deletion of ResourceClaim completed")
        return PostFilterResult(message=STILL_NOT)

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        state: PodState | None = cycle.memo.get(self.name)
        has_choice = state is not None and any(
            request.firstAvailable for claim in state.open for request in claim.spec.devices.requests or ()
        )
        return None if has_choice else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Rank nodes by their alternatives: earlier entries of a `firstAvailable` list score higher."""
        state: PodState = cycle.memo[self.name]
        numbers = numbers_of(rows)
        scores = np.zeros(len(numbers), dtype=np.int64)
        finished(self._finder.catch_up(state, cycle.pod, numbers))
        for among, part in self._finder.parts(state, cycle.pod, numbers):
            scores[among] = part.answers.ranks(numbers[among])
        return scores

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return proportional(scores)

    # -- reserving and binding ---------------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, node: str) -> Status | None:
        state: PodState | None = cycle.memo.get(self.name)
        if state is None:
            return None
        row = np.array([self._table.rows[node]], dtype=np.intp)
        finished(self._finder.catch_up(state, cycle.pod, row))
        for _, part in self._finder.parts(state, cycle.pod, row):
            allocations = part.answers.found(int(row[0]))
            if allocations is None:
                return Status(Code.ERROR, ("claim allocation not found for node",))
            state.special = part.special
            for claim, claim_wants, devices in zip(part.claims, part.answers.wants.claims, allocations, strict=True):
                result = state.promised[claim.metadata.uid] = allocation(claim_wants, devices, node)
                self._ledger.promise(claim.metadata.uid, result)
        return None

    def unreserve(self, cycle: Cycle, node: str) -> None:
        state: PodState | None = cycle.memo.get(self.name)
        for uid in state.promised if state is not None else ():
            self._ledger.withdraw(uid)

    def has_pre_bind(self, cycle: Cycle, node: str) -> bool:
        state: PodState | None = cycle.memo.get(self.name)
        return state is not None and bool(state.claims or state.special is not None)

    async def pre_bind(self, cycle: Cycle, node: str) -> Status | None:
        """Write allocations and reservations to the claims and wait until the devices are ready."""
        state: PodState | None = cycle.memo.get(self.name)
        if state is None:  # PreBind runs for another plug-in
            return None
        try:
            for at, claim in enumerate(state.claims):
                if not is_reserved_for(claim, cycle.pod):
                    promised = state.promised.get(claim.metadata.uid)
                    state.claims[at] = await self._writes.bind(claim, promised, cycle.pod)
            if state.special is not None:
                await self._bind_special(state, cycle.pod)
            if any(has_conditions(claim) for claim in state.written):
                note = f"waiting for binding conditions for device on node {node}"
                self._say(cycle.info, NORMAL, "BindingConditionsPending", "Scheduling", note)
                await self._writes.wait(state.written, self._binding_s)
        except (errors.ApiError, ConnectionFailed, BindingFailed) as error:
            return Status(Code.ERROR, (str(error),))
        return None

    async def _bind_special(self, state: PodState, pod: Pod) -> None:
        assert state.special is not None
        state.made = await self._writes.make(state.special.claim)
        promised = state.promised.pop(state.special.claim.metadata.uid)
        state.promised[state.made.metadata.uid] = promised
        state.made = await self._writes.bind(state.made, promised, pod)
        await self._writes.tell(pod, state.made, state.special.mappings)

    async def take_back(self, cycle: Cycle, node: str) -> None:
        """Release the claims that were reserved for a pod that is not bound."""
        state: PodState | None = cycle.memo.get(self.name)
        if state is None:
            return
        try:
            for claim in state.claims:
                await self._writes.release(claim, cycle.pod)
            if state.made is not None:
                await self._writes.remove(state.made)
        except (errors.ApiError, ConnectionFailed) as error:  # the next attempt tries again
            log.warning("cannot release the resource claims of pod %s: %s", cycle.info.full_name, error)

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_ALLOCATABLE), None),
            (ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD), self._concerns),
            (ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE), self._concerns),
            (ClusterEvent(Resource.RESOURCE_CLAIM, Action.DELETE), _gives_free),
            (ClusterEvent(Resource.DEVICE_CLASS, Action.ADD), None),
            (ClusterEvent(Resource.DEVICE_CLASS, Action.UPDATE), None),
            (ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD), None),
            (ClusterEvent(Resource.RESOURCE_SLICE, Action.UPDATE), None),
        ]

    # -- parts -------------------------------------------------------------------------------------------------------

    def _has_say(self, cycle: Cycle) -> bool:
        return bool(cycle.pod.spec.resourceClaims) or bool(self._extended(cycle))

    def _extended(self, cycle: Cycle) -> tuple[str, ...]:
        served = self._table.by_devices
        return tuple(name for name in sorted(cycle.needs.requests) if name in served) if served else ()

    def _state(self, cycle: Cycle) -> PodState | Status:
        try:
            claims = claims_of(cycle.pod, self._claims.get)
        except ClaimAmiss as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        extended = self._extended(cycle)
        if not claims and not extended:
            return SKIP
        for claim in claims:
            if (why := self._hindrance(claim, cycle.pod)) is not None:
                return Status(Code.UNRESOLVABLE, (why,))
        return PodState(claims, extended, self._stale(cycle.pod) if extended else None)

    def _stale(self, pod: Pod) -> ResourceClaim | None:
        own = self._claims.find(by_owner, pod.metadata.uid)
        return next((claim for claim in own if is_special(claim, pod)), None)

    def _hindrance(self, claim: ResourceClaim, pod: Pod) -> str | None:
        if claim.status.allocation is not None:
            free = can_be_reserved(claim) or is_reserved_for(claim, pod)
            return None if free else "resourceclaim in use"
        if self._ledger.is_promised(claim.metadata.uid):
            whole = f"{claim.metadata.namespace}/{claim.metadata.name}"
            return f"resource claim {whole} is in the process of being allocated"
        for request in claim.spec.devices.requests or ():
            for name, class_name in class_names(request):
                if self._classes.get(class_name) is None:
                    return f"request {name}: device class {class_name} does not exist"
        return None

    def _concerns(self, info: PodInfo, old: Any, new: Any) -> bool:
        """Whether a claim of the pod was added or changed, or another claim was deallocated."""
        try:
            own = claims_of(info.pod, self._claims.get)
        except ClaimAmiss:
            return False
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return True
        if not any(claim.metadata.uid == new.metadata.uid for claim in own):
            return False
        return old is None or bool(old.status != new.status)


def _gives_free(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the deleted claim frees devices, or was the leftover extended resource claim of the pod."""
    return old.status.allocation is not None or is_special(old, info.pod)


def _run_turn(work: Generator[Pause, None, None]) -> _Progress:
    """Run the work for one turn, or until it comes to a job."""
    end = time.perf_counter() + _TURN_S
    for job in work:
        if job is not None or time.perf_counter() > end:
            return _Progress(is_complete=False, job=job)
    return _Progress(is_complete=True)
