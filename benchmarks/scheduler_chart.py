"""A chart of the cost of a scheduling decision by cluster size: `python -m benchmarks.scheduler_chart FILE.svg`."""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.scheduler_bench import CASES, PODS, cost_us, pods_on
from benchmarks.scheduler_bench import SIZES as _SIZES

SIZES = (*_SIZES[:2], 2_000, *_SIZES[2:3], 10_000, *_SIZES[3:])
COLOURS = {"basic": "#2563eb", "spread": "#059669", "affinity": "#d97706"}
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 96, 40, 48
LINE_HEIGHT = 16
"""The smallest distance between two labels."""

Costs = Mapping[str, Mapping[int, float]]
"""The cost of a decision in microseconds, by case and number of nodes."""


def chart(costs: Costs) -> str:
    highest = _round_up(max(cost for points in costs.values() for cost in points.values()))
    sizes = sorted({size for points in costs.values() for size in points})

    def x(size: int) -> float:
        share = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(cost: float) -> float:
        return HEIGHT - BOTTOM - cost / highest * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 20, "Cost of a scheduling decision, microseconds of one processor", "start")]
    for step in range(5):
        cost = highest * step / 4
        parts.append(f'<path d="M{LEFT} {y(cost):.1f}H{WIDTH - RIGHT}" stroke="#9ca3af" stroke-opacity=".4"/>')
        parts.append(_text(LEFT - 8, y(cost) + 4, f"{cost:.0f}", "end"))
    parts += [_text(x(size), HEIGHT - BOTTOM + 20, f"{size:,}", "middle") for size in sizes]
    parts.append(
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, f"nodes, all of them evaluated; {_pods(sizes)}", "middle")
    )
    for case, points in costs.items():
        colour = COLOURS.get(case, "#6b7280")
        line = " ".join(f"{x(size):.1f},{y(cost):.1f}" for size, cost in sorted(points.items()))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    ends = {case: y(points[max(points)]) + 4 for case, points in costs.items()}
    for case, height in _apart(ends).items():
        parts.append(_text(x(sizes[-1]) + 8, height, case, "start", COLOURS.get(case, "#6b7280")))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="13">', *parts, "</svg>", ""])


def _apart(heights: Mapping[str, float]) -> dict[str, float]:
    """Return the heights of the labels, moved down where one would overlap the one above it."""
    moved: dict[str, float] = {}
    lowest = -math.inf
    for case, height in sorted(heights.items(), key=lambda item: item[1]):
        lowest = moved[case] = max(height, lowest + LINE_HEIGHT)
    return moved


def _pods(sizes: Sequence[int]) -> str:
    """Return with how many pods the costs were measured."""
    fewer = [f"{pods_on(size):,} on {size:,} nodes" for size in sizes if pods_on(size) < PODS]
    return f"{PODS:,} pods" + (f" ({', '.join(fewer)})" if fewer else "")


def _round_up(value: float) -> float:
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 4, 6, 8, 10) if unit * step >= value)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#6b7280") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def main(file: Path) -> None:
    costs = {case: {size: cost_us(size, case) for size in SIZES} for case in CASES}
    file.write_text(chart(costs))
    for case, points in costs.items():
        print(case, *(f"{size:,}: {cost:.0f}" for size, cost in points.items()), sep="  ")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
