"""A report about a cluster as a table row, and as one screen of 80 columns."""

from __future__ import annotations

import textwrap

from sampan.api.ages import human
from sampan.cli.local_cluster.cluster_dir import DEFAULT_NAME
from sampan.cli.status.cluster_report import ClusterReport, size_text

COLUMNS = ["NAME", "STATUS", "URL", "UP", "VERSION", "PID"]
_WIDTH = 80
_INDENT = 14


def table_row(report: ClusterReport) -> list[str]:
    if report.state != "running":
        return [report.name, report.state, "", "", "", ""]
    return [report.name, report.state, report.url, human(max(0.0, report.up_s)), report.version, str(report.pid)]


def details(report: ClusterReport) -> list[str]:
    """Return the lines below the table for a single cluster."""
    rows = [
        ("health", report.health),
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
    lines = [line for title, text in rows if text for line in wrapped(title, text)]
    for warning in report.warnings:
        lines += wrapped("WARNING", warning)
    if report.state == "stopped" and not report.joined:
        name = "" if report.name == DEFAULT_NAME else f" --name {report.name}"
        lines += wrapped("start", f"sampan up{name}")
    return ["", *lines] if lines else []


def wrapped(title: str, text: str) -> list[str]:
    """Return a title and a text, which is wrapped beside it."""
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
    return f"valid for {int(report.certificate_expires_s / 86400)} days" if report.certificate_expires_s > 0 else ""
