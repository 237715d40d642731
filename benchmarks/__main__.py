"""`python -m benchmarks [--write] [TOPIC ...]`: measure everything, or some topics, and print one table.

The exit code is 1 if a measurement fails to run or, with --strict, misses its goal.
"""

from pathlib import Path

import click
from rich.console import Console

from benchmarks.machine import describe
from benchmarks.report import markdown, merged, print_table
from benchmarks.run import MeasurementFailed, Result, measure, topics

RESULTS = Path(__file__).parent / "RESULTS.md"


def _console() -> Console:
    """Return a console as wide as the terminal, or wide enough for one line per row."""
    console = Console()
    return console if console.is_terminal else Console(width=150)


@click.command()
@click.argument("chosen", metavar="[TOPIC]...", nargs=-1, type=click.Choice(topics()))
@click.option(
    "--write", is_flag=True, help=f"Also write {RESULTS.parent.name}/{RESULTS.name}; with topics, replace their rows."
)
@click.option("--strict", is_flag=True, help="Fail if a goal is missed.")
def main(chosen: tuple[str, ...], write: bool, strict: bool) -> None:
    """Measure everything, or some topics, and print one table."""
    console, results, broken = _console(), list[Result](), False
    for topic in chosen or topics():
        console.print(f"measuring {topic} ...", style="dim")
        try:
            results += measure(topic)
        except MeasurementFailed as failure:
            broken = True
            console.print(f"{topic} failed:\n{failure}", style="red", markup=False, highlight=False)
    machine = describe()
    print_table(console, machine, results)
    if write and not broken:
        RESULTS.write_text(merged(RESULTS.read_text(), results) if chosen else markdown(machine, results))
        console.print(f"  written to {RESULTS.parent.name}/{RESULTS.name}")
    missed = any(result.is_met is False for result in results)
    raise SystemExit(broken or (strict and missed))


main()
