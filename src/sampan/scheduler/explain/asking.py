"""Explanations by one scheduler, for a pod that it knows or for a hypothetical pod."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from sampan.api.types.core_v1 import Pod
from sampan.scheduler.diagnosis import NO_NODES, Diagnosis
from sampan.scheduler.explain.inspection import Inspection, inspect
from sampan.scheduler.explain.outside import Fitting, add_opinions
from sampan.scheduler.explain.report import Explanation, LastDecision, NodeReport, Score, Verdict, Waiting
from sampan.scheduler.feed import LIVING
from sampan.scheduler.framework.contract import Cycle
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER, PodInfo

if TYPE_CHECKING:
    from sampan.scheduler.framework.profile import Profile
    from sampan.scheduler.scheduler import Scheduler

MOST_NODES = 200
"""The default maximum number of nodes that are reported individually, best first."""


def known_pod(scheduler: Scheduler, namespace: str, name: str) -> Pod | None:
    """Return the pod from the informer cache, which does not contain terminated pods."""
    pod: Pod | None = scheduler.informers.of(Pod, LIVING).lister.get(name, namespace)
    return pod


async def explain(scheduler: Scheduler, pod: Pod, *, now: float, most_nodes: int = MOST_NODES) -> Explanation:
    """Explain why the pod is on its node, or which node it would get; this changes nothing."""
    profile = scheduler.profiles.get(pod.spec.schedulerName or DEFAULT_SCHEDULER)
    if profile is not None:
        await profile.prepare(profile.cycle(scheduler.pods.info(_unplaced(pod)), now))
    explanation, fitting = explain_by_plugins(scheduler, pod, now=now, most_nodes=most_nodes)
    await add_opinions(explanation, scheduler.extenders, _unplaced(pod), fitting)
    return explanation


def explain_by_plugins(
    scheduler: Scheduler, pod: Pod, *, now: float, most_nodes: int = MOST_NODES
) -> tuple[Explanation, dict[str, Fitting]]:
    """Return the explanation by the plug-ins, and all nodes that pass their filters."""
    name = pod.spec.schedulerName or DEFAULT_SCHEDULER
    info = scheduler.pods.info(_unplaced(pod))
    explanation = Explanation(pod=info.full_name, scheduler=name, time=now, node=pod.spec.nodeName)
    explanation.decision = _decision(scheduler, info)
    explanation.waiting = _waiting(scheduler, info) if not pod.spec.nodeName else None
    profile = scheduler.profiles.get(name)
    if profile is None:
        explanation.isFamiliar = False
        return explanation, {}
    if explanation.waiting is None and not pod.spec.nodeName:
        kept_out = scheduler.gate(info)
        explanation.gate = kept_out.message if kept_out is not None else ""
    with _taken_off(scheduler, info.uid, pod.spec.nodeName):
        cycle = profile.cycle(info, now)
        nominated = scheduler.nominations.ahead_of(info, scheduler.table.rows)
        inspection = inspect(profile, cycle, nominated)
        _tell(explanation, inspection, profile, cycle, most_nodes)
        table = cycle.table
        fitting = {
            table.names[row]: Fitting(table.node_of(row), total)
            for row, total in zip(inspection.rows.tolist(), inspection.total.tolist(), strict=True)
        }
    return explanation, fitting


def _tell(told: Explanation, found: Inspection, profile: Profile, cycle: Cycle, most: int) -> None:
    table = cycle.table
    told.count, told.feasible = table.count, len(found.rows)
    told.filters, told.skipped = list(found.codes), found.skipped
    if len(found.rows):
        told.best = table.names[int(found.rows[int(np.argmax(found.total))])]
    else:
        told.message = _message(found, cycle)
    told.nodes = [_node(row, found, profile, cycle) for row in _chosen(told, found, cycle, most)]


def _chosen(told: Explanation, found: Inspection, cycle: Cycle, most: int) -> list[int]:
    """Return the pod's own node, then feasible nodes by score, then the others by the number of rejections."""
    names, own = cycle.table.names, cycle.table.rows.get(told.node, -1)
    score = dict(zip(found.rows.tolist(), found.total.tolist(), strict=True))
    refusals = np.zeros(cycle.table.used, dtype=np.int64)
    for codes in found.codes.values():
        refusals += codes != 0
    rows = np.flatnonzero(cycle.table.valid[cycle.table.every_row]).tolist()
    rows.sort(key=lambda row: (row != own, row not in score, -score.get(row, 0), int(refusals[row]), names[row]))
    return rows[:most]


def _node(row: int, found: Inspection, profile: Profile, cycle: Cycle) -> NodeReport:
    refusals = [cycle.verdicts[code] for code in found.refusals(row)]
    at = int(np.searchsorted(found.rows, row))
    fits = at < len(found.rows) and int(found.rows[at]) == row
    return NodeReport(
        name=cycle.table.names[row],
        fits=fits,
        refusals=[Verdict(verdict.plugin, list(verdict.reasons), verdict.is_final) for verdict in refusals],
        scores=[
            Score(plugin, int(scores[at]), profile.weights.get(plugin) or 1) for plugin, scores in found.scores.items()
        ]
        if fits
        else [],
        total=int(found.total[at]) if fits else 0,
    )


def _message(found: Inspection, cycle: Cycle) -> str:
    """Return the message of the event, which counts for each node the first plug-in that rejects it."""
    if not cycle.table.count:
        return NO_NODES
    codes = np.zeros(cycle.table.used, dtype=np.int32)
    for plugin_codes in found.codes.values():
        codes = np.where(codes == 0, plugin_codes, codes).astype(np.int32)
    codes[~cycle.table.valid[cycle.table.every_row]] = 0
    return Diagnosis(count=cycle.table.count, codes=codes, verdicts=cycle.verdicts).message


@contextmanager
def _taken_off(scheduler: Scheduler, uid: str, node: str) -> Iterator[None]:
    """Remove the pod from its node in the table for the duration of the context."""
    removed = scheduler.table.remove_pod(uid, node) if node else None
    try:
        yield
    finally:
        if removed is not None:
            scheduler.table.add_pod(removed, node)


def _unplaced(pod: Pod) -> Pod:
    """Return the pod as it was before it was bound."""
    if not pod.spec.nodeName:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=""))


def _decision(scheduler: Scheduler, info: PodInfo) -> LastDecision | None:
    decision = scheduler.history.of(info.uid)
    if decision is None:
        return None
    return LastDecision(
        time=decision.time,
        attempt=decision.attempt,
        node=decision.node,
        feasible=decision.feasible,
        score=decision.score,
        message=decision.message,
        nominated=decision.nominated,
    )


def _waiting(scheduler: Scheduler, info: PodInfo) -> Waiting | None:
    queued = scheduler.queue.get(info.uid)
    if queued is None:
        return None
    return Waiting(
        queue=queued.where,
        since=queued.first,
        attempts=queued.attempts,
        plugins=sorted(queued.plugins),
        gate=queued.gate_message,
    )
