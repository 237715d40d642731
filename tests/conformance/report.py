"""Turns the junit files of a run into docs/conformance.md and the figure in the README."""

from __future__ import annotations

import os
import platform
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.conformance.cluster import ClusterOptions
from tests.conformance.programs import KUBERNETES_VERSION

_ROOT = Path(__file__).parents[2]
_SIG = re.compile(r"\[(sig-[a-z-]+)\]")
_FIGURE = re.compile(r"(<!-- conformance -->).*?(<!-- /conformance -->)", re.DOTALL)
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    seconds: float
    failure: str = ""
    """The first line of the failure; empty if the test passed."""

    @property
    def sig(self) -> str:
        match = _SIG.search(self.name)
        return match.group(1) if match else "other"


def read(files: Iterable[Path]) -> list[Result]:
    """Returns the results of all conformance tests that ran, sorted by name."""
    found = [result for file in files if file.exists() for result in _read(file)]
    return sorted(found, key=lambda result: result.name)


def _read(file: Path) -> Iterable[Result]:
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        name = case.get("name", "")
        if "[Conformance]" not in name or case.find("skipped") is not None:
            continue
        failure = case.find("failure")
        failure = case.find("error") if failure is None else failure
        text = "" if failure is None else failure.get("message") or failure.text or "failed"
        yield Result(name, float(case.get("time", "0")), " ".join(text.split())[:_LONGEST_REASON])


def summary(results: Sequence[Result]) -> str:
    failed = [result for result in results if result.failure]
    return f"{len(results) - len(failed)} Passed | {len(failed)} Failed"


def write(results: Sequence[Result], options: ClusterOptions, minutes: float) -> Path:
    """Writes docs/conformance.md and the figure in the README."""
    page = _ROOT / "docs" / "conformance.md"
    page.write_text(_page(results, options, minutes))
    readme = _ROOT / "README.md"
    readme.write_text(_FIGURE.sub(rf"\g<1>{summary(results)}\g<2>", readme.read_text()))
    return page


def _page(results: Sequence[Result], options: ClusterOptions, minutes: float) -> str:
    failed = [result for result in results if result.failure]
    lines = [
        "# Conformance",
        "",
        f"The official conformance suite of Kubernetes {KUBERNETES_VERSION}, run by `make conformance` against "
        f"`sampan up --runtime {options.runtime} --nodes {options.nodes}` on {options.store}.",
        "This page is the output of the last full run.",
        "",
        "```",
        f"{len(results)} tests: {summary(results)}",
        f"date: {datetime.now(UTC):%Y-%m-%d}, {minutes:.0f} minutes",
        f"machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "```",
        "",
        "| SIG | passed | failed |",
        "|---|---|---|",
        *_rows(results),
        "",
    ]
    if failed:
        lines += ["## Failures", ""]
        lines += [f"- {result.name}\n  `{result.failure.replace('`', chr(39))}`" for result in failed]
        lines.append("")
    return "\n".join(lines)


def _rows(results: Sequence[Result]) -> Iterable[str]:
    for sig in sorted({result.sig for result in results}):
        of_sig = [result for result in results if result.sig == sig]
        failed = sum(1 for result in of_sig if result.failure)
        yield f"| {sig} | {len(of_sig) - failed} | {failed} |"
