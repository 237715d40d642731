"""`sampan status`: list the clusters of the current user, and describe one of them on one screen."""

from __future__ import annotations

import os
import textwrap

import click

from sampan.api.values.ages import format_age
from sampan.cli.local_cluster.cluster_dir import DEFAULT_NAME, ClusterDir, find_cluster, list_clusters
from sampan.cli.local_cluster.ready_report import emulation_text
from sampan.cli.status.cluster_report import ClusterReport, cluster_report, size_text
from sampan.kubectl.printers.objects import as_json
from sampan.kubectl.printers.table import table_lines
from sampan.machinery.cli_errors import CliError


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
        directory = find_cluster(data_dir, DEFAULT_NAME if name is None else name)
        if not directory.is_cluster:
            _refuse(directory, data_dir)
        clusters = [directory]
    else:
        clusters = list(list_clusters())
    reports = [cluster_report(directory, is_detailed=len(clusters) == 1) for directory in clusters]
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


def _refuse(directory: ClusterDir, data_dir: str | None) -> None:
    flag = "--name" if data_dir is None else "--data-dir"
    if os.path.exists(directory.path) and directory.is_unreadable:
        raise CliError(f"{flag}: cannot read {directory.path}: Permission denied")
    raise CliError(f"{flag}: there is no cluster in {directory.path}")


__all__ = ["command"]


COLUMNS = ["NAME", "STATUS", "URL", "UP", "VERSION", "PID"]
_WIDTH = 80
_INDENT = 14


def table_row(report: ClusterReport) -> list[str]:
    if report.state != "running":
        return [report.name, report.state, "", "", "", ""]
    return [report.name, report.state, report.url, format_age(max(0.0, report.up_s)), report.version, str(report.pid)]


def details(report: ClusterReport) -> list[str]:
    """Return the lines below the table for a single cluster."""
    rows = [
        ("health", report.health),
        ("level", emulation_text(report.kubernetes_version)),
        ("node", report.joined),
        ("components", ", ".join(report.components)),
        ("nodes", _nodes(report)),
        ("runtime", report.runtime),
        ("pods", ", ".join(f"{count} {phase}" for phase, count in report.pods.items())),
        ("store", _store(report)),
        ("network", _network(report)),
        ("dns", report.dns),
        ("listening", ", ".join(report.listening)),
        ("kubeconfig", report.kubeconfig),
        ("data", _data(report)),
        ("certificates", _certificates(report)),
    ]
    lines = [line for title, text in rows if text for line in wrap_beside_title(title, text)]
    for warning in report.warnings:
        lines += wrap_beside_title("WARNING", warning)
    if report.state in ("stopped", "killed") and not report.joined:
        name = "" if report.name == DEFAULT_NAME else f" --name {report.name}"
        lines += wrap_beside_title("start", f"sampan up{name}")
    return ["", *lines] if lines else []


def wrap_beside_title(title: str, text: str) -> list[str]:
    """Return a title with a text beside it, wrapped with a hanging indentation."""
    return textwrap.wrap(
        text,
        width=_WIDTH,
        initial_indent=f"{title:<{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _nodes(report: ClusterReport) -> str:
    if not report.nodes:
        return ""
    ready = sum(state == "Ready" for state in report.nodes.values())
    names = [name if state == "Ready" else f"{name} ({state})" for name, state in sorted(report.nodes.items())]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"{ready} of {len(names)} ready: {shown}"


def _store(report: ClusterReport) -> str:
    return f"{report.store}, {size_text(report.store_bytes)}" if report.store_bytes else report.store


def _network(report: ClusterReport) -> str:
    parts = [("pods", report.pod_cidrs), ("services", report.service_cidrs)]
    return ", ".join(f"{title} {' '.join(ranges)}" for title, ranges in parts if ranges)


def _data(report: ClusterReport) -> str:
    return f"{report.data_dir} ({size_text(report.free_bytes)} free)" if report.free_bytes else report.data_dir


def _certificates(report: ClusterReport) -> str:
    if report.certificates:
        return ", ".join(f"{title} {_validity(end)}" for title, end in report.certificates.items())
    return _validity(report.certificate_expires_s) if report.certificate_expires_s else ""


def _validity(expires_s: float) -> str:
    return f"valid for {int(expires_s / 86400)} days" if expires_s > 0 else "expired"
