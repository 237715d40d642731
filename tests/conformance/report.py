"""`python -m tests.conformance.report DIRECTORY`: adds all runs whose output is in the directory to the record, and
writes docs/conformance.md and the figure in the README from it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from tests.conformance.programs import Release
from tests.conformance.record import merge_runs, read_record, write_record
from tests.conformance.results import Configuration, Run, Summary, load, sig_of, summaries

ROOT = Path(__file__).parents[2]
_FIGURE = re.compile(r"(<!-- conformance -->).*?(<!-- /conformance -->)", re.DOTALL)
_LONGEST_REASON = 120


def write(output: Path) -> Path:
    """Adds the runs in the directory to the record, and writes docs/conformance.md and the figure in the README."""
    new = load(output)
    if not new:
        raise click.ClickException(f"no results of runs in {output}")
    write_record(merge_runs(read_record(), new))
    runs = read_record()
    page = ROOT / "docs" / "conformance.md"
    page.write_text(page_text(runs))
    readme = ROOT / "README.md"
    main = _main_summary(summaries(runs))
    figure = f"{Release(main.configuration.kubernetes).version}: {main}"
    readme.write_text(_FIGURE.sub(rf"\g<1>{figure}\g<2>", readme.read_text()))
    return page


def page_text(runs: Sequence[Run]) -> str:
    by_configuration = summaries(runs)
    main = _main_summary(by_configuration)
    others = [summary for summary in by_configuration.values() if summary is not main]
    version = Release(main.configuration.kubernetes).version
    lines = [
        "# Conformance",
        "",
        f"The official conformance suite of Kubernetes {version} against a Sampan",
        "cluster of two nodes, or one with containerd (`cri`). `make conformance` writes this page from the last",
        "result of each test in the record, `tests/conformance/record.json`.",
        "",
        "<!-- not run: the record of a run that takes hours -->",
        "```",
        f"{main.configuration}: {main}",
        f"machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "```",
        "",
        *_table(main),
        "",
    ]
    if others:
        lines += ["## Other configurations", "", "| version | runtime | store | kubectl | SIG | passed | failed |"]
        lines += [
            "|---|---|---|---|---|---|---|",
            *(row for summary in others for row in _configuration_rows(summary)),
            "",
        ]
    lines += [
        "## Runs",
        "",
        "| date | commit | configuration | tests | failed | minutes |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_run_row(run) for run in runs]
    lines += ["", *_failures(main)]
    for summary in others:
        lines += _failures(summary, known={result.name for result in main.results if result.failure})
    if main.left_out:
        lines += ["## Not run", "", *(f"- `{name}`" for name in main.left_out), ""]
    return "\n".join(lines)


def _main_summary(by_configuration: dict[Configuration, Summary]) -> Summary:
    """Returns the summary of the default configuration, or of the first one that ran."""
    return by_configuration.get(Configuration()) or next(iter(by_configuration.values()))


def _table(summary: Summary) -> Iterable[str]:
    yield "| SIG | passed | failed | not run |"
    yield "|---|---|---|---|"
    left_out = [sig_of(name) for name in summary.left_out]
    for sig, passed, failed in _counts(summary):
        yield f"| {sig} | {passed} | {failed} | {left_out.count(sig)} |"
    for sig in sorted(set(left_out) - {result.sig for result in summary.results}):
        yield f"| {sig} | 0 | 0 | {left_out.count(sig)} |"


def _counts(summary: Summary) -> Iterable[tuple[str, int, int]]:
    for sig in sorted({result.sig for result in summary.results}):
        of_sig = [result for result in summary.results if result.sig == sig]
        failed = sum(1 for result in of_sig if result.failure)
        yield sig, len(of_sig) - failed, failed


def _configuration_rows(summary: Summary) -> Iterable[str]:
    used = summary.configuration
    for sig, passed, failed in _counts(summary):
        yield f"| v{used.kubernetes} | {used.runtime} | {used.store} | {used.kubectl} | {sig} | {passed} | {failed} |"


def _run_row(run: Run) -> str:
    failed = sum(1 for result in run.results if result.failure)
    counts = f"{len(run.results)} | {failed} | {run.minutes:.0f}"
    return f"| {run.date} | {run.commit} | {run.configuration} | {counts} |"


def _failures(summary: Summary, known: Iterable[str] = ()) -> Iterable[str]:
    """Lists the failed tests, except the known ones."""
    failed = [result for result in summary.results if result.failure and result.name not in known]
    if failed:
        yield f"## Failures ({summary.configuration})"
        yield ""
        for result in failed:
            yield f"- `{result.name}`: {_quote(result.failure)}"
        yield ""


def _quote(failure: str) -> str:
    """Returns the beginning of a failure as Markdown code."""
    text = failure.replace("`", "'")
    return f"`{text[:_LONGEST_REASON]}…`" if len(text) > _LONGEST_REASON else f"`{text}`"


@click.command()
@click.argument("output", type=click.Path(path_type=Path, exists=True))
def main(output: Path) -> None:
    """Add the runs in OUTPUT to the record, and write docs/conformance.md and the README's figure."""
    click.echo(f"wrote {write(output)}")


if __name__ == "__main__":
    main()
