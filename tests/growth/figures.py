"""Measure the attacks and print a table of their figures: `python -m tests.growth.figures [part of a name]`."""

from __future__ import annotations

import asyncio
import sys

from sampan.testing import Cluster
from tests.growth.attack import measure, prepare
from tests.growth.attacks import ATTACKS

SIZE = 40


def main(part: str) -> None:
    with Cluster(level="nodes", nodes=2, insecure=True) as cluster:
        asyncio.run(prepare(cluster))
        print("| attack | sent, KB | responses | loop held, ms | kept, MB |\n|---|---|---|---|---|")
        for name, attack in ATTACKS.items():
            if part in name:
                figures = asyncio.run(measure(cluster, attack.steps(SIZE), attack.subscriptions))
                codes = ", ".join(f"{count} × {code}" for code, count in sorted(figures.codes.items()))
                held, kept = figures.hold.cpu_s * 1e3, max(figures.kept_bytes / 1e6, 0)
                print(f"| {name} | {figures.sent_bytes // 1000} | {codes} | {held:.0f} | {kept:.1f} |", flush=True)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
