"""A timeline as text for a terminal of 80 columns."""

from __future__ import annotations

from sampan.diagnosis.pod_timeline import PodTimeline, TimelineStep
from sampan.kubectl.printers.table import table_lines

_BAR_WIDTH = 15
_MAX_SHOWN_SHARES = 3
_PART_WIDTH = 20
_MIN_PART_S = 0.001
"""Shorter parts of a step are left out unless the output is wide."""


def timeline_text(title: str, line: PodTimeline, *, is_wide: bool) -> str:
    """Return a heading, one row per step, and the steps that took the largest part of the time to Running. Details, and
    the steps after the pod was ready, are left out unless the output is wide."""
    if not line.steps:
        return f"{title}: there are no records of this object"
    later = 0
    if not is_wide:
        later, line = len(line.steps), line.started
        later -= len(line.steps)
    header = ["STEP", "COMPONENT", "AT", "TOOK", "TIMELINE", *(["DETAIL"] if is_wide else [])]
    rows = [header]
    for step in line.steps:
        rows.append(_row(line, step, step.name, is_wide))
        parts = [part for part in step.parts if is_wide or part.took_s >= _MIN_PART_S]
        rows += [_row(line, part, _part_name(part, is_wide), is_wide) for part in parts]
    lines = [row.rstrip() for row in table_lines(rows)]
    more = [f"later steps: {later} (-o wide shows them)"] if later else []
    return "\n".join([f"{title}: {summary(line)}", *lines, *_largest(line), *more])


_FIRST_PHASES = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


def summary(line: PodTimeline) -> str:
    """Return when the pod was running, ready and reachable, and its last state if it was not ready."""
    problem = line.state.partition(", ")[2] if line.ready is None else ""
    if line.running is None:
        return f"not running yet: {problem}" if problem else "not running yet"
    first_phase = line.first_state.partition(",")[0]
    text = f"{_FIRST_PHASES[first_phase]} after {duration(line.running - line.start)}"
    if line.ready is not None:
        text += f", ready after {duration(line.ready - line.start)}"
    elif line.state.startswith("Running"):
        text += ", not ready yet"
    text += f": {problem}" if problem else ""
    return text if line.published is None else f"{text}, reachable after {duration(line.published - line.start)}"


def duration(seconds: float) -> str:
    if seconds < 0.01:
        return f"{seconds * 1000:.1f}ms"
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.2f}s"


def _part_name(part: TimelineStep, is_wide: bool) -> str:
    is_cut = not is_wide and len(part.name) > _PART_WIDTH
    return f"  {part.name[: _PART_WIDTH - 1]}…" if is_cut else f"  {part.name}"


def _row(line: PodTimeline, step: TimelineStep, name: str, is_wide: bool) -> list[str]:
    cells = [
        name,
        step.component.removesuffix("-controller"),
        duration(step.start - line.start),
        duration(step.took_s),
        _bar(line, step),
    ]
    return [*cells, step.detail] if is_wide else cells


def _bar(line: PodTimeline, step: TimelineStep) -> str:
    """Return the time of the step as a bar; steps on the critical path are drawn with a full block."""
    total = max(line.end - line.start, 1e-9)
    first = min(int((step.start - line.start) / total * _BAR_WIDTH), _BAR_WIDTH - 1)
    width = max(1, round(step.took_s / total * _BAR_WIDTH))
    mark = "·" if step.is_wait else "█" if step in line.path else "░"
    return (" " * first + mark * width)[:_BAR_WIDTH]


def _largest(line: PodTimeline) -> list[str]:
    if not line.path:
        return []
    largest = sorted(line.path, key=line.share, reverse=True)[:_MAX_SHOWN_SHARES]
    names = [_path_name(step) + f" {line.share(step):.0%}" for step in largest]
    return ["", f"critical path: {', '.join(names)}"]


def _path_name(step: TimelineStep) -> str:
    return f"wait for {step.component}" if step.is_wait else step.name
