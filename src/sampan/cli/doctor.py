"""`sampan doctor`: check this machine and its clusters: what is missing or wrong, what it costs, how to mend it."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from sampan.cli.cluster_checks import check_cluster
from sampan.cli.local_cluster import rootless
from sampan.cli.local_cluster.cluster_dir import ClusterDir, cluster_dir, cluster_options, known_clusters
from sampan.cli.status.cluster_report import cluster_report
from sampan.cluster.machine.machine_checks import CheckLevel, CheckResult, check_machine, errors_in
from sampan.cluster.machine.machine_state import read_state

_WIDTH = 80
_NAME, _LEVEL = 17, 9
"""The widths of the first two columns."""


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
@click.pass_context
def command(context: click.Context, output: str, data_dir: str | None, name: str) -> None:
    """Check this machine, and the clusters on it.

    Each line is a check. Below the table stand the findings, with what they cost and how to mend them. Without --name
    and --data-dir all clusters are checked. The exit code is 1 if there is an error: this machine cannot run nodes with
    containers, or a cluster does not work.
    """
    where = cluster_dir(data_dir, name)
    is_selected = any(
        context.get_parameter_source(parameter) is not click.core.ParameterSource.DEFAULT
        for parameter in ("data_dir", "name")
    )
    clusters = _check_clusters([where] if is_selected else list(known_clusters()))
    check = partial(_check, where.path, output, clusters)
    if rootless.is_possible():  # the machine as a cluster of this user would see it
        raise SystemExit(rootless.run_inside(partial(check, rootless.shortcomings()), has_outgoing=True))
    check()


def _check_clusters(clusters: Sequence[ClusterDir]) -> dict[str, list[CheckResult]]:
    existing = [where for where in clusters if where.is_cluster or where.is_unreadable]
    return {where.path.name: check_cluster(cluster_report(where, is_detailed=True)) for where in existing}


def _check(
    directory: Path, output: str, clusters: Mapping[str, Sequence[CheckResult]], shortcomings: Sequence[str] = ()
) -> None:
    state = replace(asyncio.run(read_state(directory)), rootless_shortcomings=shortcomings)
    machine = check_machine(state)
    has_errors = any(errors_in([*machine, *(result for results in clusters.values() for result in results)]))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(_summary(machine, clusters, not has_errors)), indent=2))
    else:
        print_results(machine)
        for name, results in clusters.items():
            click.echo("")
            print_results(results, title=f"CLUSTER {name}")
    if has_errors:
        raise SystemExit(1)


def _summary(
    machine: Sequence[CheckResult], clusters: Mapping[str, Sequence[CheckResult]], is_ok: bool
) -> dict[str, Any]:
    return {
        "ok": is_ok,
        "checks": [asdict(result) for result in machine],
        "clusters": {name: [asdict(result) for result in results] for name, results in clusters.items()},
    }


def print_results(results: Sequence[CheckResult], *, title: str = "CHECK") -> None:
    """Print a table of the results, and below it what to do about those that are not ok, in 80 columns."""
    click.echo(f"{title:<{_NAME}} {'RESULT':<{_LEVEL}} DETAIL" if len(title) <= _NAME else title)
    for result in results:
        head = f"{result.name:<{_NAME}} {result.level:<{_LEVEL}} "
        for line in _wrapped(head, result.detail):
            click.echo(line)
    for result in results:
        if result.level is not CheckLevel.OK:
            click.echo(f"\n{result.level}: {finding_text(result)}")


def finding_text(result: CheckResult) -> str:
    lines = _wrapped(f"{result.name}: ", result.detail, indent=2)
    lines += _wrapped("  cost    ", result.cost) if result.cost else []
    return "\n".join([*lines, *(_wrapped("  remedy  ", result.remedy) if result.remedy else [])])


def _wrapped(head: str, text: str, indent: int | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * (len(head) if indent is None else indent),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]
