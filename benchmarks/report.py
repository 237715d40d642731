"""The table of results: on the terminal, and as Markdown for benchmarks/RESULTS.md."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from benchmarks.machine import Machine
from benchmarks.run import Result

COLUMNS = ("measure", "measured", "goal", "unit", "met", "goal at 1.0", "note")
RIGHT = frozenset({"measured", "goal", "goal at 1.0"})


def cells(result: Result) -> tuple[str, ...]:
    row = result.row
    met = {True: "yes", False: "NO", None: ""}[result.is_met]
    return (row.name, number(row.value), number(result.goal), row.unit, met, number(row.goal), row.note)


def number(value: float | None) -> str:
    """Format a number with three significant figures and with separators of thousands."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def facts(machine: Machine, results: Sequence[Result]) -> list[str]:
    factors = sorted(result.factor for result in results) or [1.0]
    return [
        f"{machine.cores} cores of {machine.processor}",
        f"{machine.python}, SQLite {machine.sqlite}",
        f"disk of {machine.directory}: {number(machine.fsyncs_per_s)} fsyncs a second, one after the other",
        f"calibration {factors[0]:.2f} to {factors[-1]:.2f} (1.0 is the reference machine, 2.0 takes twice as long)",
    ]


def print_table(console: Console, machine: Machine, results: Sequence[Result]) -> None:
    table = Table(*COLUMNS[:5], COLUMNS[6], title="Sampan, measured here and now")
    for column in table.columns:
        column.justify = "right" if column.header in RIGHT else "left"
    for before, result in zip([None, *results], results, strict=False):
        if before and before.topic != result.topic:
            table.add_section()
        shown = cells(result)
        table.add_row(*shown[:5], shown[6], style={True: "green", False: "bold red", None: ""}[result.is_met])
    console.print(table)
    for fact in facts(machine, results):
        console.print(f"  {fact}", soft_wrap=True)


def markdown(machine: Machine, results: Sequence[Result]) -> str:
    lines = [
        "# Results",
        "",
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}. The goal is the one for the reference",
        "machine, scaled by how fast this machine was beside each measurement.",
        "",
        *(f"- {fact}" for fact in facts(machine, results)),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "|".join("--:" if column in RIGHT else "---" for column in COLUMNS) + "|",
        *("| " + " | ".join(cells(result)) + " |" for result in results),
    ]
    return "\n".join(lines) + "\n"


def merged(text: str, results: Sequence[Result]) -> str:
    """Return the page of results with these rows: each in the place of the row with its name, new ones at the end. The
    machine and the date stay those of the rows that were measured together."""
    rows = {result.row.name: "| " + " | ".join(cells(result)) + " |" for result in results}
    lines = [rows.pop(_row_name(line), line) for line in text.splitlines()]
    return "\n".join([*lines, *rows.values()]) + "\n"


def _row_name(line: str) -> str:
    return line.split(" | ", 1)[0].removeprefix("| ") if line.startswith("| ") else ""
