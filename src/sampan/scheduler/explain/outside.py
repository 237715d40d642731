"""Adds the results of extenders, which are asked about the nodes that pass all plug-ins, to an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.explain.report import Explanation, NodeReport, Score, Verdict

if TYPE_CHECKING:
    from sampan.scheduler.extenders.chain import ExtenderChain, Opinions

REFUSED = "node(s) refused by the extender"
"""The reason for a node that an extender rejects without a message."""


class Fitting(NamedTuple):
    """A node that passes all plug-ins."""

    node: Node
    total: int


async def add_opinions(told: Explanation, extenders: ExtenderChain, pod: Pod, fitting: Mapping[str, Fitting]) -> None:
    if not fitting or not extenders.has_say(pod):
        return
    opinions = await extenders.asked(pod, [entry.node for entry in fitting.values()])
    told.filters += list(opinions.refused)
    told.notes += [f"extender {name} could not be asked: {why}" for name, why in opinions.failures.items()]
    refused = set().union(*opinions.refused.values())
    totals = {name: entry.total + _extra(name, opinions) for name, entry in fitting.items() if name not in refused}
    told.feasible = len(totals)
    told.best = max(totals, key=lambda name: totals[name], default="")
    for report in told.nodes:
        if report.name in fitting:
            _add(report, opinions, totals)
    told.nodes.sort(key=lambda entry: (entry.name != told.node, not entry.fits, -entry.total))


def _extra(name: str, found: Opinions) -> int:
    return sum(score * weight for scores in found.scores.values() for score, weight in [scores.get(name, (0, 0))])


def _add(report: NodeReport, found: Opinions, totals: Mapping[str, int]) -> None:
    for extender, refused in found.refused.items():
        if report.name in refused:
            reason, is_final = refused[report.name]
            report.refusals.append(Verdict(extender, [reason or REFUSED], is_final))
    if report.name not in totals:
        report.fits, report.scores, report.total = False, [], 0
        return
    for extender, scores in found.scores.items():
        score, weight = scores.get(report.name, (0, 1))
        report.scores.append(Score(extender, score, weight))
    report.total = totals[report.name]
