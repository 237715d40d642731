"""A timeline as an SVG picture: one row per step, with the critical path emphasized."""

from __future__ import annotations

from xml.sax.saxutils import escape

from sampan.cli.trace.timeline_text import duration, summary
from sampan.diagnosis.pod_timeline import PodTimeline, TimelineStep

_LABEL_WIDTH, _CHART_WIDTH, _ROW_HEIGHT, _TOP = 330, 560, 24, 86
_MARGIN = 16
_TITLE_LETTER_WIDTH = 9
_MAX_NAME, _MAX_COMPONENT = 27, 22
"""The number of letters for which there is room before the chart; the tooltip has the whole text."""
_TICKS = 5
_STYLE = """\
.paper { fill: #ffffff; }
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2d3a; }
.title { font-weight: 600; font-size: 15px; }
.small { font-size: 11px; fill: #566573; }
.line { stroke: #d5dde3; }
.step { fill: #9fb4c3; }
.path { fill: #14728a; }
.wait { fill: none; stroke: #14728a; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
.paper { fill: #10181f; } text { fill: #dfe7ee; } .small { fill: #9fb0be; } .line { stroke: #2c3a45; }
.step { fill: #5b7083; } .path { fill: #4fb3c9; } .wait { stroke: #4fb3c9; }
}"""


def timeline_svg(title: str, line: PodTimeline) -> str:
    line = line.started
    height = _TOP + _ROW_HEIGHT * len(line.steps) + _MARGIN
    times = summary(line)
    text_width = _TITLE_LETTER_WIDTH * max(len(title), len(times))
    width = max(_LABEL_WIDTH + _CHART_WIDTH + 3 * _MARGIN, text_width + 2 * _MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(f'{title}: {times}')}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="title" x="{_MARGIN}" y="26">{escape(title)}</text>',
        f'<text x="{_MARGIN}" y="46">{escape(times)}</text>',
        *_axis(line, height),
        *(part for row, step in enumerate(line.steps) for part in _row(line, step, _TOP + row * _ROW_HEIGHT)),
        "</svg>",
    ]
    return "\n".join(parts)


def _axis(line: PodTimeline, height: int) -> list[str]:
    parts = []
    for tick in range(_TICKS + 1):
        x = _MARGIN + _LABEL_WIDTH + _CHART_WIDTH * tick / _TICKS
        text = duration((line.end - line.start) * tick / _TICKS)
        parts.append(f'<line class="line" x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{height - _MARGIN}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{_TOP - 14}" text-anchor="middle">{text}</text>')
    return parts


def _row(line: PodTimeline, step: TimelineStep, y: int) -> list[str]:
    scale = _CHART_WIDTH / max(line.end - line.start, 1e-9)
    x = _MARGIN + _LABEL_WIDTH + (step.start - line.start) * scale
    width = max(step.took_s * scale, 2.0)
    style = "wait" if step.is_wait else "path" if step in line.path else "step"
    tip = " ".join(part for part in (step.name, duration(step.took_s), step.component, step.detail) if part)
    return [
        f'<text x="{_MARGIN}" y="{y + 14}">{escape(_cut(step.name, _MAX_NAME))}</text>',
        f'<text class="small" x="{_MARGIN + 190}" y="{y + 14}">{escape(_cut(step.component, _MAX_COMPONENT))}</text>',
        f'<rect class="{style}" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW_HEIGHT - 10}" rx="2">'
        f"<title>{escape(tip)}</title></rect>",
    ]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
