"""`sampan doctor`: check what this machine can do, what it lacks, and what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import click
import msgspec

from sampan.cli import rootless
from sampan.cli.cluster_dir import cluster_dir, cluster_options
from sampan.cli.kubectl.columns import aligned
from sampan.cluster.machine_checks import CheckLevel, CheckResult, check_machine, errors_in
from sampan.cluster.machine_state import read_state

_HEAD = "CHECK\tRESULT\tDETAIL"


@click.command("doctor")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format in which the results are printed.",
)
@cluster_options
def command(output: str, data_dir: str | None, name: str) -> None:
    """Check what this machine can do for a cluster.

    Each line is a check. Below the table stand the findings, with what they cost and how to mend them. The exit code is
    1 if this machine cannot run nodes with containers.
    """
    check = partial(_check, cluster_dir(data_dir, name).path, output)
    if rootless.is_possible():  # the machine as a cluster of this user would see it
        raise SystemExit(rootless.run_inside(partial(check, rootless.shortcomings()), has_outgoing=True))
    check()


def _check(directory: Path, output: str, shortcomings: Sequence[str] = ()) -> None:
    state = replace(asyncio.run(read_state(directory)), rootless_shortcomings=shortcomings)
    results = check_machine(state)
    has_errors = any(errors_in(results))
    if output == "json":
        summary = {"ok": not has_errors, "checks": [asdict(result) for result in results]}
        click.echo(msgspec.json.format(msgspec.json.encode(summary), indent=2))
    else:
        print_results(results)
    if has_errors:
        raise SystemExit(1)


def print_results(results: Sequence[CheckResult]) -> None:
    for line in aligned([_HEAD, *(f"{result.name}\t{result.level}\t{result.detail}" for result in results)]):
        click.echo(line.rstrip())
    for result in results:
        if result.level is not CheckLevel.OK:
            click.echo(f"\n{result.level}: {finding_text(result)}")


def finding_text(result: CheckResult) -> str:
    lines = [f"{result.name}: {result.detail}"]
    lines += [f"  cost    {result.cost}"] if result.cost else []
    return "\n".join([*lines, *([f"  remedy  {result.remedy}"] if result.remedy else [])])
