"""Runs every plug-in on every node, including nodes that another plug-in has rejected already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampan.scheduler.arrays import Codes, Ints
from sampan.scheduler.framework.contract import Code, Cycle, Narrowed
from sampan.scheduler.framework.profile import KeptRoom, Profile

NOMINATED = "NominatedPods"
"""Takes the place of the plug-in name in rejections due to nominated pods."""


@dataclass(slots=True)
class Inspection:
    codes: dict[str, Codes] = field(default_factory=dict)
    """Verdict codes of each row, by plug-in in the order of the profile."""
    skipped: list[str] = field(default_factory=list)
    scores: dict[str, Ints] = field(default_factory=dict)
    """Scores of the feasible rows from 0 to 100, by plug-in."""
    rows: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """The feasible rows."""
    total: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def refusals(self, row: int) -> list[int]:
        return [int(codes[row]) for codes in self.codes.values() if codes[row]]


def inspect(profile: Profile, cycle: Cycle, nominated: KeptRoom = ()) -> Inspection:
    inspection = Inspection()
    _filter(inspection, profile, cycle)
    ok = cycle.table.valid[cycle.table.every_row].copy()
    for codes in inspection.codes.values():
        ok &= codes == 0
    _keep_room(inspection, profile, cycle, ok, nominated)
    inspection.rows = np.flatnonzero(ok)
    if len(inspection.rows):
        _score(inspection, profile, cycle)
    return inspection


def _filter(found: Inspection, profile: Profile, cycle: Cycle) -> None:
    answers = _asked_before(profile, cycle)
    for plugin in profile.points.get("filter", ()):
        answer = answers.get(plugin.name)
        if answer is None or isinstance(answer, Narrowed):
            codes = plugin.filter(cycle, cycle.table.every_row)
        elif answer.code is Code.SKIP:
            found.skipped.append(plugin.name)
            continue
        else:
            code = cycle.refuse(plugin.name, *answer.reasons, is_final=answer.code is Code.UNRESOLVABLE)
            codes = np.full(cycle.table.used, code, dtype=np.int32)
        if isinstance(answer, Narrowed):
            codes = _outside(codes, plugin.name, answer, cycle)
        found.codes[plugin.name] = codes


def _asked_before(profile: Profile, cycle: Cycle) -> dict[str, Any]:
    """Run all PreFilter plug-ins, even after a rejection, because Filter plug-ins depend on the state that they
    prepare.
    """
    return {plugin.name: plugin.pre_filter(cycle) for plugin in profile.points.get("preFilter", ())}


def _outside(codes: Codes, plugin: str, narrowed: Narrowed, cycle: Cycle) -> Codes:
    """Reject nodes outside the plug-in's PreFilter result, unless its filter has already rejected them."""
    inside = np.zeros(len(codes), dtype=np.bool_)
    for name in narrowed.names:
        if name in cycle.table.rows:
            inside[cycle.table.rows[name]] = True
    code = cycle.refuse(plugin, f"node(s) didn't satisfy plugin(s) [{plugin}]", is_final=True)
    return np.where((codes == 0) & ~inside, code, codes).astype(np.int32)


def _keep_room(
    found: Inspection,
    profile: Profile,
    cycle: Cycle,
    ok: NDArray[np.bool_],
    nominated: KeptRoom,
) -> None:
    codes = np.zeros(len(ok), dtype=np.int32)
    for row, pods in nominated:
        if ok[row] and not profile.fits_with(cycle, row, pods):
            names = ", ".join(info.full_name for info in pods)
            codes[row], ok[row] = cycle.refuse(NOMINATED, f"room is kept for {names}"), False
    if codes.any():
        found.codes[NOMINATED] = codes


def _score(found: Inspection, profile: Profile, cycle: Cycle) -> None:
    found.total = np.zeros(len(found.rows), dtype=np.int64)
    for plugin in profile.points.get("score", ()):
        status = plugin.pre_score(cycle, found.rows) if hasattr(plugin, "pre_score") else None
        if status is not None and status.code is Code.SKIP:
            continue
        scores = plugin.score(cycle, found.rows)
        if hasattr(plugin, "normalize"):
            scores = plugin.normalize(cycle, scores)
        found.scores[plugin.name] = scores
        found.total = found.total + (profile.weights.get(plugin.name) or 1) * scores
