"""DefaultPreemption: finds a node that would fit the pod if pods of lower priority were evicted from it.

The search works on the node table itself: it removes pods from a row, runs the filters and adds the pods again. The
plugin evicts nothing; the scheduler acts on its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sampan.api.selectors.label_selector import selector_of
from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import Pod
from sampan.api.types.policy_v1 import PodDisruptionBudget
from sampan.host.time_slice import TimeSlice
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.config.plugin_args import check_preemption, raise_if_invalid, read_args
from sampan.scheduler.extenders.extender_chain import ExtenderChain
from sampan.scheduler.extenders.http_extender import ExtenderError
from sampan.scheduler.framework.contract import CycleState, PluginScope, PostFilterResult
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.framework.handle import Handle

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
PREEMPTION_NEVER_MESSAGE = "not eligible due to preemptionPolicy=Never."
NO_CANDIDATE = "no candidate node for preemption"
TERMINATING = "not eligible due to a terminating pod on the nominated node."
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
_OFFSET = 2**31


class DefaultPreemptionArgs(msgspec.Struct, forbid_unknown_fields=True):
    minCandidateNodesPercentage: int = 10
    minCandidateNodesAbsolute: int = 100


class PreemptionCandidate(NamedTuple):
    row: int
    victims: tuple[PodInfo, ...]
    """The pods to evict, most important first."""
    violations: int
    """The number of victims whose eviction violates a PodDisruptionBudget."""


class DefaultPreemption:
    name = "DefaultPreemption"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._args = read_args(handle.args, DefaultPreemptionArgs)
        raise_if_invalid(check_preemption(self._args.minCandidateNodesPercentage, self._args.minCandidateNodesAbsolute))
        self._budgets = handle.informers.for_kind(PodDisruptionBudget).lister
        self._extenders = handle.extenders
        self._evicting = handle.nominator.evicting

    async def post_filter(self, cycle: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        if refusal := self._explain_ineligibility(cycle, diagnosis):
            return PostFilterResult(message=f"preemption: {refusal}")
        candidates, codes = await self._candidates(cycle, diagnosis)
        if not candidates:
            return PostFilterResult(nominated="", message=f"preemption: {self._failure_message(cycle, codes)}")
        try:
            candidates = await call_extenders(cycle, candidates, self._extenders)
        except ExtenderError as error:
            return PostFilterResult(message=f"preemption: {error}")
        if not candidates:
            return PostFilterResult(nominated="", message=f"preemption: {NO_CANDIDATE}")
        best = choose(candidates)
        node = cycle.table.names[best.row]
        note = f"found a potential placement for pod on node {node}, preempting {len(best.victims)} victims"
        return PostFilterResult(nominated=node, message=f"preemption: {note}", is_success=True, victims=best.victims)

    def _explain_ineligibility(self, cycle: CycleState, diagnosis: Diagnosis) -> str:
        pod, table = cycle.pod, cycle.table
        if pod.spec.preemptionPolicy == "Never":
            return PREEMPTION_NEVER_MESSAGE
        if cycle.info.uid in self._evicting:
            return TERMINATING
        row = table.rows.get(pod.status.nominatedNodeName, -1)
        if row < 0 or (row < len(diagnosis.codes) and diagnosis.rejections[int(diagnosis.codes[row])].is_final):
            return ""
        victims = (info for info in table.pods[row].values() if info.priority < cycle.info.priority)
        return TERMINATING if any(is_preempted(info.pod) for info in victims) else ""

    async def _candidates(self, cycle: CycleState, diagnosis: Diagnosis) -> tuple[list[PreemptionCandidate], Any]:
        """Return the nodes that would fit without some pods, and the rejection codes of the other nodes examined."""
        rows = self._rows_to_try(diagnosis)
        codes = np.zeros(len(diagnosis.codes), dtype=np.int32)
        target = max(len(rows) * self._args.minCandidateNodesPercentage // 100, self._args.minCandidateNodesAbsolute)
        budgets = list(self._budgets)
        candidates: list[PreemptionCandidate] = []
        harmless = 0
        time_slice = TimeSlice()
        for row in rows:
            candidate = victims_on(cycle, int(row), budgets)
            if isinstance(candidate, PreemptionCandidate):
                candidates.append(candidate)
                harmless += not candidate.violations
                if harmless >= target:
                    break
            else:
                codes[row] = candidate
            await time_slice.pause_if_used_up()
        return candidates, codes

    def _rows_to_try(self, diagnosis: Diagnosis) -> np.ndarray[Any, np.dtype[np.intp]]:
        if diagnosis.pre_filter and not len(diagnosis.codes):
            return np.zeros(0, dtype=np.intp)
        by_code = {code: diagnosis.rejections[int(code)] for code in np.unique(diagnosis.codes)}
        codes = [code for code, rejection in by_code.items() if code and not rejection.is_final]
        return np.flatnonzero(np.isin(diagnosis.codes, codes))

    def _failure_message(self, cycle: CycleState, codes: Any) -> str:
        """Return the message without candidates; nodes that were not examined count as not helped by preemption."""
        table = cycle.table
        codes = codes.copy()
        fitting_rows = table.valid[: len(codes)] & (codes == 0)
        codes[fitting_rows] = cycle.reject(self.name, NOT_HELPFUL, is_final=True)
        return Diagnosis(count=table.count, codes=codes, rejections=cycle.rejections).message


async def call_extenders(
    cycle: CycleState, candidates: list[PreemptionCandidate], extenders: ExtenderChain | None
) -> list[PreemptionCandidate]:
    """Return the candidates that the extenders accept, with the victims they choose."""
    if extenders is None or not extenders.extenders:
        return candidates
    names = cycle.table.names
    victims = {names[candidate.row]: (candidate.victims, candidate.violations) for candidate in candidates}
    chosen = await extenders.preempt(cycle, victims)
    rows = cycle.table.rows
    return [
        PreemptionCandidate(rows[node], tuple(sorted(pods, key=importance)), violations)
        for node, (pods, violations) in chosen.items()
        if node in rows
    ]


def victims_on(cycle: CycleState, row: int, budgets: Sequence[PodDisruptionBudget]) -> PreemptionCandidate | int:
    """Return the minimal victims on the node, or the rejection code if evicting all lower pods does not help.

    The most important pods are spared first.
    """
    table, filters, node = cycle.table, cycle.filters, cycle.table.names[row]
    lower = [info for info in table.pods[row].values() if info.priority < cycle.info.priority]
    if not lower:
        return cycle.reject(DefaultPreemption.name, NO_VICTIMS, is_final=True)
    off: dict[str, PodInfo] = {}
    try:
        for info in lower:
            table.remove_pod(info.uid, node)
            off[info.uid] = info
        nominated = [pods for node_row, pods in cycle.memo.get("nominated", ()) if node_row == row]
        ahead = nominated[0] if nominated else []
        code = _code(cycle, row, ahead)
        if code:
            return code
        violating, others = split_by_budget(sorted(lower, key=importance), budgets)
        victims: list[PodInfo] = []
        violations = 0
        for info in (*violating, *others):
            table.add_pod(info, node)
            del off[info.uid]
            if not (filters.fits(cycle, row) and (not ahead or filters.fits_with(cycle, row, ahead))):
                table.remove_pod(info.uid, node)
                off[info.uid] = info
                victims.append(info)
                violations += info in violating
        return PreemptionCandidate(row, tuple(sorted(victims, key=importance)), violations)
    finally:
        for info in off.values():
            table.add_pod(info, node)


def _code(cycle: CycleState, row: int, ahead: Sequence[PodInfo]) -> int:
    filters = cycle.filters
    rows = np.array([row], dtype=np.intp)
    code = int(filters.codes(cycle, rows, again=True)[0])
    if not code and ahead and not filters.fits_with(cycle, row, ahead):
        return cycle.reject(DefaultPreemption.name, NOT_HELPFUL)
    return code


def importance(info: PodInfo) -> tuple[Any, ...]:
    """The sort key of pods, most important first: by priority, then by start time."""
    return (-info.priority, info.pod.status.startTime or "9", info.full_name)


def split_by_budget(
    pods: Iterable[PodInfo], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return the pods whose eviction would violate a budget, and the others, both in their original order."""
    remaining = [budget.status.disruptionsAllowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for info in pods:
        is_violated = False
        for index, budget in enumerate(budgets):
            if _protects(budget, info.pod):
                remaining[index] -= 1
                is_violated = is_violated or remaining[index] < 0
        (violating if is_violated else others).append(info)
    return violating, others


def _protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    if budget.metadata.namespace != pod.metadata.namespace or not pod.metadata.labels:
        return False
    selector = selector_of(budget.spec.selector)
    if selector.is_everything or not selector.matches(pod.metadata.labels):
        return False
    return pod.metadata.name not in budget.status.disruptedPods


def choose(candidates: Sequence[PreemptionCandidate]) -> PreemptionCandidate:
    """Return the candidate with the least disruption.

    The criteria are, in order: fewest PDB violations, lowest maximum priority, lowest sum of priorities, fewest
    victims, latest start time of the most important victims.
    """
    return min(candidates, key=_disruption)


def _disruption(candidate: PreemptionCandidate) -> tuple[Any, ...]:
    pods = candidate.victims
    if not pods:
        return (candidate.violations, -_OFFSET, 0, 0, _ReversedTimestamp(""), candidate.row)
    highest = pods[0].priority
    started = min(info.pod.status.startTime or "9" for info in pods if info.priority == highest)
    total = sum(info.priority + _OFFSET for info in pods)
    return (candidate.violations, highest, total, len(pods), _ReversedTimestamp(started), candidate.row)


class _ReversedTimestamp(str):
    """A timestamp that sorts in reverse order."""

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def is_preempted(pod: Pod) -> bool:
    if pod.metadata.deletionTimestamp is None:
        return False
    disruption = find_condition(pod.status.conditions, "DisruptionTarget")
    return disruption is not None and disruption.status == "True" and disruption.reason == PREEMPTION_BY_SCHEDULER
