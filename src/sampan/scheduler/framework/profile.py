"""A profile: the plug-ins of one scheduler name in their order, and the scheduling cycle that runs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampan.scheduler.arrays import Codes, Ints, Rows, count_of
from sampan.scheduler.diagnosis import Diagnosis
from sampan.scheduler.framework.commitment import Commitment
from sampan.scheduler.framework.contract import Code, Cycle, Narrowed, PostFilterResult, Scope, Status, Together
from sampan.scheduler.framework.kinds import REFUSED, Kind, Scorer
from sampan.scheduler.framework.metrics import PointMetrics
from sampan.scheduler.framework.verdicts import Verdicts
from sampan.scheduler.needs import Needs
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.picking import InTurn, Picker
from sampan.scheduler.pod_info import PodInfo

POINTS = {
    "preEnqueue": "pre_enqueue",
    "queueSort": "sort_key",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
}
"""The extension points as named in the configuration, with the plug-in methods that they call."""

_KINDS_KEPT = 1024

KeptRoom = Sequence[tuple[int, Sequence[PodInfo]]]
"""Nominated pods by row: they are not on the node yet, but its resources are kept for them."""


class Placed:
    """The selected node, or the diagnosis if no node fits."""

    __slots__ = ("diagnosis", "feasible", "row", "score")

    def __init__(self, row: int = -1, feasible: int = 0, score: int = 0, diagnosis: Diagnosis | None = None) -> None:
        self.row, self.feasible, self.score, self.diagnosis = row, feasible, score, diagnosis


class Profile:
    def __init__(
        self,
        *,
        name: str,
        table: NodeTable,
        points: dict[str, Sequence[Any]],
        weights: dict[str, int],
        picker: Picker | None = None,
        metrics: PointMetrics | None = None,
    ) -> None:
        """Create a profile; `points` maps each extension point to its plug-ins in order."""
        self.name, self.table, self.points, self.weights = name, table, points, weights
        self.verdicts = Verdicts()
        self.picker: Picker = picker or InTurn()
        self.metrics = metrics or PointMetrics()
        self.commitment = Commitment(points, self.metrics)
        """Runs the extension points from Reserve on."""
        self._filters = points.get("filter", ())
        self._scorers = [Scorer(candidate, weights.get(candidate.name) or 1) for candidate in points.get("score", ())]
        self._far_filters = [candidate for candidate in self._filters if candidate.scope is Scope.CLUSTER]
        self._far_pre_filters = [
            candidate for candidate in points.get("preFilter", ()) if candidate.scope is Scope.CLUSTER
        ]
        self._far_scorers = [candidate for candidate in self._scorers if candidate.plugin.scope is Scope.CLUSTER]
        self._preparing = [candidate for candidate in self.plugins if hasattr(candidate, "prepare")]
        self._joining = [candidate for candidate in self.plugins if hasattr(candidate, "together")]
        self._kinds: OrderedDict[Needs, Kind] = OrderedDict()

    @property
    def plugins(self) -> list[Any]:
        by_name: dict[str, Any] = {}
        for plugins in self.points.values():
            by_name |= {plugin.name: plugin for plugin in plugins}
        return list(by_name.values())

    def cycle(self, info: PodInfo, now: float) -> Cycle:
        return Cycle(info=info, table=self.table, verdicts=self.verdicts, profile=self, now=now)

    def together(self, info: PodInfo) -> Together | None:
        for plugin in self._joining:
            group: Together | None = plugin.together(info)
            if group is not None:
                return group
        return None

    async def prepare(self, cycle: Cycle) -> None:
        """Run the long-running preparations of plug-ins, to be awaited before `place`."""
        for plugin in self._preparing:
            work = plugin.prepare(cycle)
            if work is not None:
                await work

    # -- node selection ----------------------------------------------------------------------------------------------

    def place(self, cycle: Cycle, nominated: KeptRoom = ()) -> Placed:
        if not self.metrics.is_turn():
            return self._place(cycle, nominated)
        with self.metrics.sampled(self.points):
            return self._place(cycle, nominated)

    def _place(self, cycle: Cycle, nominated: KeptRoom) -> Placed:
        kind = self._kind(cycle)
        rejection, narrowed, skipped = self._pre_filter(cycle, kind)
        if rejection is not None:
            return Placed(diagnosis=self._rejected(rejection))
        if narrowed is not None:
            return self._place_among(cycle, kind, narrowed, nominated)
        kind.refresh(cycle)
        far = [plugin for plugin in self._far_filters if plugin.name not in skipped]
        if not far and not nominated and not kind.relative:
            scorers = self._telling_scorers(cycle, self.table.every_row)
            if not scorers:
                return self._quick(cycle, kind)
        return self._place_anywhere(cycle, kind, far, nominated)

    def _quick(self, cycle: Cycle, kind: Kind) -> Placed:
        """Select a node from the cached totals alone."""
        total = kind.total[: self.table.used]
        best = int(total.max()) if len(total) else REFUSED
        if best < 0:
            return Placed(diagnosis=self.diagnose(cycle))
        rows = np.flatnonzero(total == best)
        return Placed(self.picker.pick(rows), len(rows), best)

    def _place_anywhere(self, cycle: Cycle, kind: Kind, far: Sequence[Any], nominated: KeptRoom) -> Placed:
        every = self.table.every_row
        total = kind.total[every]
        ok = total >= 0
        for plugin in far:
            ok &= plugin.filter(cycle, every) == 0
        self._leave_room(cycle, ok, nominated)
        rows = np.flatnonzero(ok)
        if not len(rows):
            return Placed(diagnosis=self.diagnose(cycle, nominated=nominated))
        if len(rows) == 1:
            return Placed(int(rows[0]), 1)
        return self._best(cycle, rows, total[rows], [(scorer, raw[rows]) for scorer, raw in kind.relative])

    def _place_among(
        self,
        cycle: Cycle,
        kind: Kind,
        names: frozenset[str],
        nominated: KeptRoom,
    ) -> Placed:
        rows = self._fitting(cycle, self._rows_of(names), nominated)
        if not len(rows):
            return Placed(diagnosis=self.diagnose(cycle, names=names, nominated=nominated))
        return self._best(cycle, rows, kind.totals(cycle, rows), kind.relatives(cycle, rows))

    def _fitting(self, cycle: Cycle, rows: NDArray[np.intp], nominated: KeptRoom) -> NDArray[np.intp]:
        ok = self.codes(cycle, rows) == 0
        kept = dict(nominated)
        for at, row in enumerate(rows):
            if ok[at] and int(row) in kept:
                ok[at] = self.fits_with(cycle, int(row), kept[int(row)])
        fitting: NDArray[np.intp] = rows[ok]
        return fitting

    def feasible(self, cycle: Cycle, nominated: KeptRoom = ()) -> tuple[NDArray[np.intp], Diagnosis | None]:
        """Return the feasible rows, or the diagnosis if there are none; extenders run between this and `best`."""
        rejection, narrowed, _ = self._pre_filter(cycle, self._kind(cycle))
        if rejection is not None:
            return np.zeros(0, dtype=np.intp), self._rejected(rejection)
        rows = np.flatnonzero(self.table.valid[self.table.every_row]) if narrowed is None else self._rows_of(narrowed)
        rows = self._fitting(cycle, rows, nominated)
        return rows, None if len(rows) else self.diagnose(cycle, names=narrowed, nominated=nominated)

    def best(self, cycle: Cycle, rows: NDArray[np.intp], extra: Ints) -> Placed:
        """Select the best of the feasible rows, with `extra` added to their scores."""
        kind = self._kind(cycle)
        return self._best(cycle, rows, kind.totals(cycle, rows) + extra, kind.relatives(cycle, rows))

    def _best(
        self, cycle: Cycle, rows: NDArray[np.intp], total: Ints, relative: Sequence[tuple[Scorer, Ints]]
    ) -> Placed:
        for (plugin, weight), raw in relative:
            total = total + weight * plugin.normalize(cycle, raw)
        for plugin, weight in self._telling_scorers(cycle, rows):
            scores = plugin.score(cycle, rows)
            total = total + weight * (plugin.normalize(cycle, scores) if hasattr(plugin, "normalize") else scores)
        best = int(total.max())
        return Placed(self.picker.pick(rows[total == best]), len(rows), best)

    def _telling_scorers(self, cycle: Cycle, rows: Rows) -> list[Scorer]:
        scorers = []
        for scorer in self._far_scorers:
            status = scorer.plugin.pre_score(cycle, rows) if hasattr(scorer.plugin, "pre_score") else None
            if status is None or status.code is not Code.SKIP:
                scorers.append(scorer)
        return scorers

    def _leave_room(self, cycle: Cycle, ok: Any, nominated: KeptRoom) -> None:
        for row, pods in nominated:
            if ok[row]:
                ok[row] = self.fits_with(cycle, row, pods)

    def fits_beside(self, cycle: Cycle, row: int, nominated: KeptRoom) -> bool:
        """Whether the pod fits the node now, and still does with the pods that are nominated to it."""
        return self.fits(cycle, row) and all(self.fits_with(cycle, at, pods) for at, pods in nominated if at == row)

    def fits_with(self, cycle: Cycle, row: int, pods: Sequence[PodInfo]) -> bool:
        """Whether the pod fits the node with these pods on it."""
        return not self._code_with(cycle, row, pods)

    def fits(self, cycle: Cycle, row: int) -> bool:
        return not self.codes(cycle, np.array([row], dtype=np.intp), again=True)[0]

    # -- filters in their order --------------------------------------------------------------------------------------

    def codes(self, cycle: Cycle, rows: Rows, *, again: bool = False) -> Codes:
        """Return, for each row, the verdict of the first plug-in that rejects it.

        `again` is set if the table changed since the cycle started, so that PreFilter has to run again.
        """
        kind = self._kind(cycle)
        skipped: set[str] = cycle.memo.get(_SKIPPED, kind.skipped)
        if again:
            rejection, _, skipped = self._pre_filter(cycle, kind)
            if rejection is not None:
                return np.full(count_of(rows), self._code_of(rejection), dtype=np.int32)
        codes = np.zeros(count_of(rows), dtype=np.int32)
        for plugin in self._filters:
            if plugin.name not in skipped:
                codes = np.where(codes == 0, plugin.filter(cycle, rows), codes)
                if codes.all():
                    break
        return codes

    def diagnose(
        self,
        cycle: Cycle,
        *,
        names: frozenset[str] | None = None,
        nominated: KeptRoom = (),
    ) -> Diagnosis:
        """Return why each node does not fit."""
        table = self.table
        codes = self.codes(cycle, table.every_row)
        valid = table.valid[table.every_row]
        codes[~valid] = 0
        if names is not None:
            outside = valid.copy()
            outside[self._rows_of(names)] = False
            plugins = sorted(cycle.memo.get(_NARROWING, ()))
            codes[outside] = self.verdicts.code(
                plugins[0] if plugins else "", f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]", is_final=True
            )
        for row, pods in nominated:
            if codes[row] == 0 and valid[row]:
                codes[row] = self._code_with(cycle, row, pods)
        diagnosis = Diagnosis(count=table.count, codes=codes, verdicts=self.verdicts)
        diagnosis.plugins = {verdict.plugin for verdict, _ in diagnosis.tallied()}
        return diagnosis

    def _code_with(self, cycle: Cycle, row: int, pods: Sequence[PodInfo]) -> int:
        node = self.table.names[row]
        for info in pods:
            self.table.add_pod(info, node)
        try:
            return int(self.codes(cycle, np.array([row], dtype=np.intp), again=True)[0])
        finally:
            for info in pods:
                self.table.remove_pod(info.uid, node)

    def _rejected(self, status: Status) -> Diagnosis:
        table = self.table
        codes = np.where(table.valid[table.every_row], self._code_of(status), 0).astype(np.int32)
        return Diagnosis(
            count=table.count,
            codes=codes,
            verdicts=self.verdicts,
            pre_filter=status.message,
            plugins={status.plugin},
        )

    def _code_of(self, status: Status) -> int:
        return self.verdicts.code(status.plugin, *status.reasons, is_final=status.code is Code.UNRESOLVABLE)

    # -- PreFilter ---------------------------------------------------------------------------------------------------

    def _kind(self, cycle: Cycle) -> Kind:
        kind = self._kinds.get(cycle.needs)
        if kind is None:
            kind = self._kinds[cycle.needs] = Kind(cycle, self._filters, self._scorers)
            if len(self._kinds) > _KINDS_KEPT:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(cycle.needs)
        return kind

    def _pre_filter(self, cycle: Cycle, kind: Kind) -> tuple[Status | None, frozenset[str] | None, set[str]]:
        """Return a rejection, the only nodes to consider, and the names of the filters to skip."""
        skipped, narrowed = kind.skipped, kind.narrowed
        narrowing = set(kind.narrowing)
        if kind.rejection is not None:
            return kind.rejection, None, skipped
        for plugin in self._far_pre_filters:
            answer = plugin.pre_filter(cycle)
            if answer is None:
                continue
            if isinstance(answer, Narrowed):
                narrowed = answer.names if narrowed is None else narrowed & answer.names
                narrowing.add(plugin.name)
            elif answer.code is Code.SKIP:
                skipped = skipped | {plugin.name}
            else:
                return replace(answer, plugin=plugin.name), None, skipped
        cycle.memo[_SKIPPED], cycle.memo[_NARROWING] = skipped, narrowing
        return None, narrowed, skipped

    def _rows_of(self, names: frozenset[str]) -> NDArray[np.intp]:
        rows = self.table.rows
        return np.array(sorted(rows[name] for name in names if name in rows), dtype=np.intp)

    # -- PostFilter --------------------------------------------------------------------------------------------------

    async def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Return the result of the first plug-in that succeeds, otherwise the messages of all of them."""
        with self.metrics.point("PostFilter") as outcome:
            result = await self._post_filter(cycle, diagnosis)
            outcome.code = Code.SUCCESS if result.is_success else Code.UNSCHEDULABLE
        return result

    async def _post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        nominated: str | None = None
        messages: list[str] = []
        for plugin in self.points.get("postFilter", ()):
            with self.metrics.plugin("PostFilter", plugin.name) as outcome:
                result: PostFilterResult = await plugin.post_filter(cycle, diagnosis)
                outcome.code = Code.SUCCESS if result.is_success else Code.UNSCHEDULABLE
            if result.is_success:
                return result
            messages += [result.message] if result.message else []
            nominated = nominated if result.nominated is None else result.nominated
        return PostFilterResult(nominated=nominated, message=", ".join(messages))


_SKIPPED, _NARROWING = "framework/skipped", "framework/narrowing"
