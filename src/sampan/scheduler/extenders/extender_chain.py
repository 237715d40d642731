"""Calls all extenders during a scheduling cycle: each filters the nodes that the previous ones have left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.cache.arrays import Codes, Ints
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.extenders.extender_config import ExtenderConfig
from sampan.scheduler.extenders.http_extender import ExtenderError, FilterResult, HttpExtender
from sampan.scheduler.framework.contract import MAX_SCORE, Code, CycleState, ScheduleResult, Status
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.framework.framework import Framework, NominatedPods

log = logging.getLogger(__name__)

NAME = "Extender"
"""The name that rejections by extenders have in place of the name of a plugin."""
_HIGHEST = 10
"""The maximum score that an extender returns."""

T = TypeVar("T")


@dataclass(slots=True)
class ExtenderResults:
    """The results of all extenders, by the URL of the extender and by node."""

    rejected: dict[str, dict[str, tuple[str, bool]]] = field(default_factory=dict)
    """The reason of the rejection, and whether preemption would not help."""
    scores: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """The score from 0 to 100, and the weight."""
    failures: dict[str, str] = field(default_factory=dict)


class ExtenderChain:
    def __init__(self, configs: Sequence[ExtenderConfig]) -> None:
        self.extenders = [HttpExtender(config) for config in configs]
        self.ignored_resources = frozenset[str]().union(*(config.ignored_resources for config in configs))

    def is_interested(self, pod: Pod) -> bool:
        """Whether an extender filters or scores nodes for the pod."""
        return any(
            (extender.config.filter_verb or extender.config.prioritize_verb) and extender.is_interested(pod)
            for extender in self.extenders
        )

    async def close(self) -> None:
        for extender in self.extenders:
            await extender.close()

    # -- node selection ----------------------------------------------------------------------------------------------

    async def select_node(
        self, framework: Framework, cycle: CycleState, nominated: NominatedPods = ()
    ) -> ScheduleResult:
        """Select a node like `Framework.select_node`, with the extenders.

        The table may change while their requests are in flight.
        """
        rows, diagnosis = framework.feasible(cycle, nominated)
        if diagnosis is not None:
            return ScheduleResult(diagnosis=diagnosis)
        names, rejected = await self._filter(cycle, rows)
        if not names:
            return ScheduleResult(diagnosis=self._diagnosis(framework, cycle, rejected, nominated))
        rows = cycle.table.rows_of(names)
        if len(rows) == 1:
            return ScheduleResult(int(rows[0]), 1)
        more = await self._scores(cycle, [cycle.table.node_of(int(row)) for row in rows])
        rows = cycle.table.rows_of(names)
        extra: Ints = np.array([more.get(cycle.table.names[row], 0) for row in rows], dtype=np.int64)
        return framework.best(cycle, rows, extra)

    async def accepts(self, cycle: CycleState, row: int) -> bool:
        """Whether the extenders accept the node nominated for the pod."""
        names, _ = await self._filter(cycle, np.array([row], dtype=np.intp))
        return bool(names)

    async def _filter(self, cycle: CycleState, rows: NDArray[np.intp]) -> tuple[list[str], dict[str, tuple[str, bool]]]:
        """Return the names of the remaining nodes, and for each rejected node the reason and whether it is final."""
        nodes = [cycle.table.node_of(int(row)) for row in rows]
        rejected: dict[str, tuple[str, bool]] = {}
        for extender in self._select_interested(cycle.pod, "filter_verb"):
            if not nodes:
                break
            result = await self._call(extender, partial(extender.filter, cycle.pod, nodes))
            if result is not None:
                nodes = _apply_filter_result(nodes, result, rejected)
        return [node.metadata.name for node in nodes], rejected

    async def _scores(self, cycle: CycleState, nodes: Sequence[Node]) -> dict[str, int]:
        """Return the amount that the extenders add to the score of each node. An extender that fails adds nothing, even
        if it is not ignorable."""
        interested = self._select_interested(cycle.pod, "prioritize_verb")
        responses = await asyncio.gather(*(_scores_of(scorer, cycle.pod, nodes) for scorer in interested))
        total: dict[str, int] = {}
        for extender, scores in zip(interested, responses, strict=True):
            for name, score in scores.items():
                total[name] = total.get(name, 0) + score * extender.config.weight * (MAX_SCORE // _HIGHEST)
        return total

    def _diagnosis(
        self, framework: Framework, cycle: CycleState, rejected: dict[str, tuple[str, bool]], nominated: NominatedPods
    ) -> Diagnosis:
        diagnosis = framework.diagnose(cycle, nominated=nominated)
        codes: Codes = diagnosis.codes
        for name, (reason, is_final) in rejected.items():
            row = cycle.table.rows.get(name, -1)
            if 0 <= row < len(codes):
                codes[row] = cycle.rejections.code(NAME, reason, is_final=is_final)
        diagnosis.plugins = {rejection.plugin for rejection, _ in diagnosis.count_rejections()} | {NAME}
        return diagnosis

    # -- explanations ------------------------------------------------------------------------------------------------

    async def evaluate(self, pod: Pod, nodes: Sequence[Node]) -> ExtenderResults:
        """Return the results of each extender for nodes that pass all plugins; failures are recorded instead of
        raised.
        """
        results = ExtenderResults()
        for extender in self._select_interested(pod, "filter_verb"):
            try:
                result = await extender.filter(pod, nodes)
            except ExtenderError as error:
                results.failures[extender.name] = str(error)
                continue
            rejected: dict[str, tuple[str, bool]] = {}
            remaining = {node.metadata.name for node in _apply_filter_result(nodes, result, rejected)}
            rejected_nodes = [node.metadata.name for node in nodes if node.metadata.name not in remaining]
            results.rejected[extender.name] = {name: rejected.get(name, ("", False)) for name in rejected_nodes}
        for extender in self._select_interested(pod, "prioritize_verb"):
            try:
                scores = await extender.prioritize(pod, nodes)
            except ExtenderError as error:
                results.failures[extender.name] = str(error)
                continue
            results.scores[extender.name] = {
                name: (score * MAX_SCORE // _HIGHEST, extender.config.weight) for name, score in scores.items()
            }
        return results

    # -- preemption and binding --------------------------------------------------------------------------------------

    async def preempt(
        self, cycle: CycleState, victims: Mapping[str, tuple[Sequence[PodInfo], int]]
    ) -> Mapping[str, tuple[Sequence[PodInfo], int]]:
        """Return the candidates that the extenders accept, with the victims they choose; raise ExtenderError if one
        fails.
        """
        for extender in self._select_interested(cycle.pod, "preempt_verb"):
            if not victims:
                break
            result = await self._call(extender, partial(extender.preempt, cycle.pod, victims))
            if result is None:
                continue
            chosen: dict[str, tuple[Sequence[PodInfo], int]] = {}
            for node, picked in result.items():
                pods = _pods_of(cycle, extender.name, node, picked.uids)
                if pods:
                    chosen[node] = (pods, picked.violations)
                elif not extender.config.is_ignorable:
                    raise ExtenderError(f'expected at least one victim pod on node "{node}"')
            victims = chosen
        return victims

    async def bind(self, cycle: CycleState, node: str) -> Status | None:
        """Bind the pod through an extender; return a SKIP status if binding is left to the plugins."""
        for extender in self._select_interested(cycle.pod, "bind_verb"):
            try:
                await extender.bind(cycle.pod, node)
            except ExtenderError as error:
                if extender.config.is_ignorable:
                    log.info("skipping ignorable scheduler extender %s: %s", extender.name, error)
                    continue
                return Status(Code.ERROR, (str(error),), NAME)
            return None
        return Status(Code.SKIP)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _select_interested(self, pod: Pod, verb: str) -> list[HttpExtender]:
        return [
            extender for extender in self.extenders if getattr(extender.config, verb) and extender.is_interested(pod)
        ]

    async def _call(self, extender: HttpExtender, call: Callable[[], Awaitable[T]]) -> T | None:
        """Return the response, or None if an ignorable extender failed."""
        try:
            return await call()
        except ExtenderError as error:
            if not extender.config.is_ignorable:
                raise
            log.info("skipping ignorable scheduler extender %s: %s", extender.name, error)
            return None


async def _scores_of(extender: HttpExtender, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
    try:
        return await extender.prioritize(pod, nodes)
    except ExtenderError as error:
        log.info("scheduler extender %s returned no scores: %s", extender.name, error)
        return {}


def _apply_filter_result(
    nodes: Sequence[Node], result: FilterResult, rejected: dict[str, tuple[str, bool]]
) -> list[Node]:
    rejected.update({name: (reason, True) for name, reason in result.unresolvable.items()})
    for name, reason in result.failed.items():
        if name not in result.unresolvable:
            rejected[name] = (reason, False)
    node_names = set(result.nodes or ())
    return [node for node in nodes if node.metadata.name in node_names]


def _pods_of(cycle: CycleState, extender: str, node: str, uids: Sequence[str]) -> list[PodInfo]:
    row = cycle.table.rows.get(node, -1)
    pods = cycle.table.pods[row] if row >= 0 else {}
    for uid in uids:
        if uid not in pods:
            detail = f"claims to preempt pod (UID: {uid}) on node: {node}, but the pod is not found on that node"
            raise ExtenderError(f"extender: {extender} {detail}")
    return [pods[uid] for uid in uids]
