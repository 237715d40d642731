"""Explains the scheduling of a pod that has a node, is pending, or is hypothetical.

Every plugin runs on every node, including nodes that another plugin has rejected already. Extenders are called with
the nodes that pass all plugins. The last decision comes from the scheduler's history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.cache.arrays import Codes, Ints
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.cache.pod_signature import PODS
from sampan.scheduler.event_handlers import LIVING
from sampan.scheduler.explain.report import (
    Explanation,
    LastDecision,
    NodeReport,
    PluginRejection,
    PluginScore,
    QueueState,
    ResourceShortage,
)
from sampan.scheduler.framework.contract import Code, CycleState, PreFilterResult, Status
from sampan.scheduler.framework.diagnosis import NO_NODES, Diagnosis
from sampan.scheduler.framework.framework import Framework, NominatedPods
from sampan.scheduler.framework.signature_cache import Scorer
from sampan.scheduler.plugins.node_resources_fit import NodeResourcesFit

if TYPE_CHECKING:
    from sampan.scheduler.extenders.extender_chain import ExtenderChain, ExtenderResults
    from sampan.scheduler.framework.framework import Framework
    from sampan.scheduler.scheduler import Scheduler


NOMINATED = "NominatedPods"
"""Takes the place of the plugin name in rejections due to nominated pods."""


@dataclass(slots=True)
class NodeInspection:
    codes: dict[str, Codes] = field(default_factory=dict)
    """Rejection codes of each row, by plugin in the order of the profile."""
    skipped: list[str] = field(default_factory=list)
    scores: dict[str, Ints] = field(default_factory=dict)
    """Scores of the feasible rows from 0 to 100, by plugin."""
    rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """The rows of the node table whose nodes are feasible."""
    total: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def rejections_of(self, row: int) -> list[int]:
        return [int(codes[row]) for codes in self.codes.values() if codes[row]]


def inspect(framework: Framework, cycle: CycleState, nominated: NominatedPods = ()) -> NodeInspection:
    inspection = NodeInspection()
    _filter(inspection, framework, cycle)
    ok = cycle.table.valid[cycle.table.every_row].copy()
    for codes in inspection.codes.values():
        ok &= codes == 0
    _reserve_for_nominated(inspection, framework, cycle, ok, nominated)
    inspection.rows = np.flatnonzero(ok)
    if len(inspection.rows):
        _score(inspection, framework, cycle)
    return inspection


def _filter(inspection: NodeInspection, framework: Framework, cycle: CycleState) -> None:
    results = _run_pre_filters(framework, cycle)
    for plugin in framework.points.filter:
        result = results.get(plugin.name)
        if result is None or isinstance(result, PreFilterResult):
            codes = plugin.filter(cycle, cycle.table.every_row)
        elif result.code is Code.SKIP:
            inspection.skipped.append(plugin.name)
            continue
        else:
            code = cycle.reject(plugin.name, *result.reasons, is_final=result.code is Code.UNRESOLVABLE)
            codes = np.full(cycle.table.used, code, dtype=np.int32)
        if isinstance(result, PreFilterResult):
            codes = _reject_outside(codes, plugin.name, result, cycle)
        inspection.codes[plugin.name] = codes


def _run_pre_filters(framework: Framework, cycle: CycleState) -> dict[str, Status | PreFilterResult | None]:
    """Run all PreFilter plugins, even after a rejection, because Filter plugins depend on the state that they
    prepare.
    """
    return {plugin.name: plugin.pre_filter(cycle) for plugin in framework.points.pre_filter}


def _reject_outside(codes: Codes, plugin: str, narrowed: PreFilterResult, cycle: CycleState) -> Codes:
    """Reject nodes outside the plugin's PreFilter result, unless its filter has already rejected them."""
    inside = np.zeros(len(codes), dtype=np.bool_)
    for name in narrowed.names:
        if name in cycle.table.rows:
            inside[cycle.table.rows[name]] = True
    code = cycle.reject(plugin, f"node(s) didn't satisfy plugin(s) [{plugin}]", is_final=True)
    return np.where((codes == 0) & ~inside, code, codes).astype(np.int32)


def _reserve_for_nominated(
    inspection: NodeInspection,
    framework: Framework,
    cycle: CycleState,
    ok: NDArray[np.bool_],
    nominated: NominatedPods,
) -> None:
    codes = np.zeros(len(ok), dtype=np.int32)
    for row, pods in nominated:
        if ok[row] and not framework.fits_with(cycle, row, pods):
            names = ", ".join(info.full_name for info in pods)
            codes[row], ok[row] = cycle.reject(NOMINATED, f"resources are reserved for nominated pods {names}"), False
    if codes.any():
        inspection.codes[NOMINATED] = codes


def _score(inspection: NodeInspection, framework: Framework, cycle: CycleState) -> None:
    inspection.total = np.zeros(len(inspection.rows), dtype=np.int64)
    for plugin in framework.points.score:
        scorer = Scorer.from_plugin(plugin, framework.weights.get(plugin.name) or 1)
        if scorer.is_skipped(cycle, inspection.rows):
            continue
        scores = plugin.score(cycle, inspection.rows)
        if scorer.normalizer is not None:
            scores = scorer.normalizer.normalize(cycle, scores)
        inspection.scores[plugin.name] = scores
        inspection.total = inspection.total + scorer.weight * scores


REJECTED_BY_EXTENDER = "node(s) rejected by the extender"
"""The reason for a node that an extender rejects without a message."""


class FeasibleNode(NamedTuple):
    """A node that passes all plugins."""

    node: Node
    total: int


async def add_extender_results(
    explanation: Explanation, extenders: ExtenderChain, pod: Pod, feasible_nodes: Mapping[str, FeasibleNode]
) -> None:
    if not feasible_nodes or not extenders.is_interested(pod):
        return
    results = await extenders.evaluate(pod, [entry.node for entry in feasible_nodes.values()])
    explanation.filters += list(results.rejected)
    explanation.notes += [f"extender {name} failed: {why}" for name, why in results.failures.items()]
    rejected = set().union(*results.rejected.values())
    totals = {
        name: entry.total + _extender_score(name, results)
        for name, entry in feasible_nodes.items()
        if name not in rejected
    }
    explanation.feasible = len(totals)
    explanation.best = max(totals, key=lambda name: totals[name], default="")
    for report in explanation.nodes:
        if report.name in feasible_nodes:
            _add_to_node(report, results, totals)
    explanation.nodes.sort(key=lambda entry: (entry.name != explanation.node, not entry.fits, -entry.total))


def _extender_score(name: str, results: ExtenderResults) -> int:
    return sum(score * weight for scores in results.scores.values() for score, weight in [scores.get(name, (0, 0))])


def _add_to_node(report: NodeReport, results: ExtenderResults, totals: Mapping[str, int]) -> None:
    for extender, rejected in results.rejected.items():
        if report.name in rejected:
            reason, is_final = rejected[report.name]
            report.refusals.append(PluginRejection(extender, [reason or REJECTED_BY_EXTENDER], is_final))
    if report.name not in totals:
        report.fits, report.scores, report.total = False, [], 0
        return
    for extender, scores in results.scores.items():
        score, weight = scores.get(report.name, (0, 1))
        report.scores.append(PluginScore(extender, score, weight))
    report.total = totals[report.name]


MAX_REPORTED_NODES = 200
"""The default maximum number of nodes that are reported individually, best first."""


def find_pod(scheduler: Scheduler, namespace: str, name: str) -> Pod | None:
    """Return the pod from the informer cache, which does not contain terminated pods."""
    pod: Pod | None = scheduler.informers.for_kind(Pod, LIVING).lister.get(name, namespace)
    return pod


async def explain(scheduler: Scheduler, pod: Pod, *, now: float, max_nodes: int = MAX_REPORTED_NODES) -> Explanation:
    """Explain why the pod is on its node, or which node it would get; this changes nothing. Raise PluginFailure if a
    plugin fails."""
    framework = scheduler.profiles.get(pod.spec.schedulerName or DEFAULT_SCHEDULER)
    try:
        if framework is not None:
            await framework.prepare(framework.cycle(scheduler.pods.info(_as_unbound(pod)), now))
        explanation, feasible_nodes = explain_by_plugins(scheduler, pod, now=now, max_nodes=max_nodes)
    except Exception as error:
        if framework is not None and (failure := framework.find_failure(error)) is not None:
            raise failure from error
        raise
    await add_extender_results(explanation, scheduler.extenders, _as_unbound(pod), feasible_nodes)
    return explanation


def explain_by_plugins(
    scheduler: Scheduler, pod: Pod, *, now: float, max_nodes: int = MAX_REPORTED_NODES
) -> tuple[Explanation, dict[str, FeasibleNode]]:
    """Return the explanation by the plugins, and all nodes that pass their filters."""
    name = pod.spec.schedulerName or DEFAULT_SCHEDULER
    info = scheduler.pods.info(_as_unbound(pod))
    explanation = Explanation(pod=info.full_name, scheduler=name, time=now, node=pod.spec.nodeName)
    explanation.decision = _decision(scheduler, info)
    explanation.waiting = _describe_waiting(scheduler, info) if not pod.spec.nodeName else None
    framework = scheduler.profiles.get(name)
    if framework is None:
        explanation.isFamiliar = False
        return explanation, {}
    if explanation.waiting is None and not pod.spec.nodeName:
        kept_out = framework.pre_enqueue(info)
        explanation.gate = kept_out.message if kept_out is not None else ""
    with _without_pod(scheduler, info.uid, pod.spec.nodeName):
        cycle = framework.cycle(info, now)
        nominated = scheduler.nominator.list_higher_priority_pods(info, scheduler.table.rows)
        inspection = inspect(framework, cycle, nominated)
        _fill(explanation, inspection, framework, cycle, max_nodes)
        table = cycle.table
        feasible_nodes = {
            table.names[row]: FeasibleNode(table.node_of(row), total)
            for row, total in zip(inspection.rows.tolist(), inspection.total.tolist(), strict=True)
        }
    return explanation, feasible_nodes


def _fill(
    explanation: Explanation, inspection: NodeInspection, framework: Framework, cycle: CycleState, max_count: int
) -> None:
    table = cycle.table
    explanation.count, explanation.feasible = table.count, len(inspection.rows)
    explanation.filters, explanation.skipped = list(inspection.codes), inspection.skipped
    if len(inspection.rows):
        explanation.best = table.names[int(inspection.rows[int(np.argmax(inspection.total))])]
    else:
        explanation.message = _message(inspection, cycle)
    explanation.nodes = [
        _node(row, inspection, framework, cycle) for row in _order_nodes(explanation, inspection, cycle, max_count)
    ]
    if NodeResourcesFit.name in inspection.codes:
        _add_shortages(explanation, cycle)


def _add_shortages(explanation: Explanation, cycle: CycleState) -> None:
    """Add the resources that nodes lack, to the report of each node and, for the node that has most left of those that
    lack it, to the explanation."""
    table = cycle.table
    for name, request in {PODS: 1, **cycle.signature.requests}.items():
        index = table.resource(name)
        allocatable = table.allocatable[index, table.every_row]
        free = allocatable - table.requested[index, table.every_row]
        is_lacking = table.valid[table.every_row] & (free < request)
        if name in table.device_resources:  # devices may provide the resource on nodes that do not have it
            is_lacking &= allocatable > 0
        if is_lacking.any():
            maximum = int(np.argmax(np.where(is_lacking, free, np.iinfo(np.int64).min)))
            explanation.shortages.append(_shortage(table, maximum, name, request))
        for report in explanation.nodes:
            if is_lacking[row := table.rows[report.name]]:
                report.shortages.append(_shortage(table, row, name, request))


def _shortage(table: NodeTable, row: int, resource: str, request: int) -> ResourceShortage:
    index = table.resource(resource)
    allocatable, requested = int(table.allocatable[index, row]), int(table.requested[index, row])
    return ResourceShortage(resource, request, table.names[row], allocatable, requested)


def _order_nodes(explanation: Explanation, inspection: NodeInspection, cycle: CycleState, maximum: int) -> list[int]:
    """Return the pod's own node, then feasible nodes by score, then the others by the number of rejections."""
    names, own = cycle.table.names, cycle.table.rows.get(explanation.node, -1)
    score = dict(zip(inspection.rows.tolist(), inspection.total.tolist(), strict=True))
    refusals = np.zeros(cycle.table.used, dtype=np.int64)
    for codes in inspection.codes.values():
        refusals += codes != 0
    rows = np.flatnonzero(cycle.table.valid[cycle.table.every_row]).tolist()
    rows.sort(key=lambda row: (row != own, row not in score, -score.get(row, 0), int(refusals[row]), names[row]))
    return rows[:maximum]


def _node(row: int, inspection: NodeInspection, framework: Framework, cycle: CycleState) -> NodeReport:
    refusals = [cycle.rejections[code] for code in inspection.rejections_of(row)]
    index = int(np.searchsorted(inspection.rows, row))
    fits = index < len(inspection.rows) and int(inspection.rows[index]) == row
    return NodeReport(
        name=cycle.table.names[row],
        fits=fits,
        refusals=[
            PluginRejection(rejection.plugin, list(rejection.reasons), rejection.is_final) for rejection in refusals
        ],
        scores=[
            PluginScore(plugin, int(scores[index]), framework.weights.get(plugin) or 1)
            for plugin, scores in inspection.scores.items()
        ]
        if fits
        else [],
        total=int(inspection.total[index]) if fits else 0,
    )


def _message(inspection: NodeInspection, cycle: CycleState) -> str:
    """Return the message of the event, which counts for each node the first plugin that rejects it."""
    if not cycle.table.count:
        return NO_NODES
    codes = np.zeros(cycle.table.used, dtype=np.int32)
    for plugin_codes in inspection.codes.values():
        codes = np.where(codes == 0, plugin_codes, codes).astype(np.int32)
    codes[~cycle.table.valid[cycle.table.every_row]] = 0
    return Diagnosis(count=cycle.table.count, codes=codes, rejections=cycle.rejections).message


@contextmanager
def _without_pod(scheduler: Scheduler, uid: str, node: str) -> Iterator[None]:
    """Remove the pod from its node in the table for the duration of the context."""
    removed = scheduler.table.remove_pod(uid, node) if node else None
    try:
        yield
    finally:
        if removed is not None:
            scheduler.table.add_pod(removed, node)


def _as_unbound(pod: Pod) -> Pod:
    """Return the pod as it was before it was bound."""
    if not pod.spec.nodeName:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, nodeName=""))


def _decision(scheduler: Scheduler, info: PodInfo) -> LastDecision | None:
    decision = scheduler.history.get(info.uid)
    return LastDecision.from_decision(decision) if decision is not None else None


def _describe_waiting(scheduler: Scheduler, info: PodInfo) -> QueueState | None:
    queued = scheduler.queue.get(info.uid)
    if queued is None:
        return None
    return QueueState(
        queue=queued.where,
        since=queued.first,
        attempts=queued.attempts,
        plugins=sorted(queued.plugins),
        gate=queued.gate_message,
    )
