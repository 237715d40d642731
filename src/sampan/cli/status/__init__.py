"""`sampan status`: list the clusters of the current user, and describe one of them on one screen."""

from __future__ import annotations

import os

import click

from sampan.cli.failures import CliError
from sampan.cli.kubectl.printers.objects import as_json
from sampan.cli.kubectl.printers.table import table_lines
from sampan.cli.local_cluster.cluster_dir import DEFAULT_NAME, ClusterDir, cluster_dir, known_clusters
from sampan.cli.status.cluster_report import ClusterReport, cluster_report
from sampan.cli.status.report_text import COLUMNS, details, table_row


@click.command("status")
@click.option("--data-dir", metavar="DIR", help="Show only the cluster with this data directory.")
@click.option("--name", help="Show only the cluster with this name.")
@click.option(
    "-o", "--output", type=click.Choice(["", "json"]), default="", help="Output format: json is for programs."
)
def command(data_dir: str | None, name: str | None, output: str) -> None:
    """List clusters, and show one in detail.

    The details of a cluster are shown if it is the only one, or if --name or --data-dir selects it: components, nodes,
    runtime, store, network, addresses, health and warnings. With --name or --data-dir the exit code is 1 unless the
    cluster is running.
    """
    is_selected = data_dir is not None or name is not None
    if is_selected:
        where = cluster_dir(data_dir, DEFAULT_NAME if name is None else name)
        if not where.is_cluster:
            _refuse(where, data_dir)
        clusters = [where]
    else:
        clusters = list(known_clusters())
    reports = [cluster_report(where, is_detailed=len(clusters) == 1) for where in clusters]
    if output == "json":
        click.echo(as_json([report.value() for report in reports]))
    else:
        click.echo("\n".join(_lines(reports)))
    if is_selected and reports[0].state != "running":
        raise SystemExit(1)


def _lines(reports: list[ClusterReport]) -> list[str]:
    if not reports:
        hint = "" if os.geteuid() == 0 else ". Clusters of root are shown by `sudo sampan status`"
        return [f"no clusters; `sampan up` starts one{hint}"]
    lines = [line.rstrip() for line in table_lines([COLUMNS, *map(table_row, reports)])]
    if len(reports) == 1:
        return lines + details(reports[0])
    return [*lines, "", "sampan status --name NAME shows one of them in detail."]


def _refuse(where: ClusterDir, data_dir: str | None) -> None:
    flag = "--name" if data_dir is None else "--data-dir"
    if os.path.exists(where.path) and where.is_unreadable:
        raise CliError(f"{flag}: cannot read {where.path}: Permission denied")
    raise CliError(f"{flag}: there is no cluster in {where.path}")


__all__ = ["command"]
