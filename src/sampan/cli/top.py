"""`sampan top`: nodes and pods by their use of CPU and memory, refreshed on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from sampan.api.values.quantity import Quantity
from sampan.cli.kubectl import open_session
from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.global_options import connection_options
from sampan.kubectl.commands.top.metrics import RESOURCES, find_path, usage_of
from sampan.kubectl.errors import ServerError
from sampan.kubectl.printers.objects import as_json
from sampan.machinery.cli_errors import CliError

_HOME_AND_CLEAR = "\033[H\033[J"
_BAR = 7
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    name: str
    state: str
    """Ready, NotReady, or either with SchedulingDisabled."""
    pods: int
    cpu_millicores: int
    cpu_percent: int
    memory_bytes: int
    memory_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    namespace: str
    name: str
    node: str
    state: str
    restarts: int
    cpu_millicores: int
    memory_bytes: int


@click.command("top")
@click.argument("kind", type=click.Choice(["all", "nodes", "pods"]), default="all", metavar="[nodes|pods]")
@click.option("-n", "--namespace", default="", metavar="NS", help="Show only the pods of this namespace.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Show only the pods with these labels.")
@click.option(
    "--sort-by",
    type=click.Choice(["cpu", "memory", "name"]),
    default="cpu",
    show_default=True,
    help="Sort the rows by CPU or memory usage, highest first, or by name.",
)
@click.option("--once", is_flag=True, help="Print the tables once, as without a terminal.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    help="Seconds between two refreshes.",
)
@click.option("-o", "--output", type=click.Choice(["", "json"]), default="", help="Output format, for programs: json.")
@connection_options
def command(kind: str, selector: str, sort_by: str, once: bool, interval: float, output: str, **options: Any) -> None:
    """Show nodes and pods by their use of CPU and memory.

    On a terminal the tables are refreshed until Ctrl-C, and long names are cut; otherwise, and with --once, the tables
    are printed once.
    """
    is_scoped = bool(options.get("namespace"))
    session = open_session(options)
    path = find_path(session)
    source = UsageSource(session, path, session.namespace if is_scoped else "", selector)
    if output == "json":
        click.echo(as_json(_value(kind, source)))
        return
    if once or not sys.stdout.isatty():
        for line in screen(kind, source, sort_by, is_cut=sys.stdout.isatty()):
            click.echo(line)
        return
    _refresh(kind, source, sort_by, interval)


def _refresh(kind: str, source: UsageSource, sort_by: str, interval_s: float) -> None:
    try:
        while True:
            size = shutil.get_terminal_size()
            try:
                lines = screen(kind, source, sort_by, is_cut=True)
            except ServerError as error:
                lines = [error.format_message()]
            except CliError as error:  # the API server may restart
                lines = [error.format_message()]
            moment = time.strftime("%H:%M:%S")
            lines = [f"{moment}, every {interval_s:g} s, sorted by {sort_by}; Ctrl-C ends", "", *lines]
            shown = [line[: size.columns] for line in fit_lines(lines, size.lines - 1)]
            click.echo(_HOME_AND_CLEAR + "\n".join(shown))
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return


def fit_lines(lines: Sequence[str], height: int) -> list[str]:
    """Return the lines that fit on a terminal. If lines are cut off, the last line says how many."""
    if len(lines) <= height or height < 2:
        return list(lines)
    return [*lines[: height - 1], f"… and {len(lines) - height + 1} more lines"]


class UsageSource:
    def __init__(self, session: Session, path: str, namespace: str, selector: str) -> None:
        """`path` is that of the Metrics API."""
        self._session, self._path, self._selector = session, path, selector
        self._scope = f"/namespaces/{namespace}" if namespace else ""

    def nodes(self) -> list[NodeUsage]:
        pods = self._session.get("/api/v1/pods", {"fieldSelector": "status.phase=Running"})["items"] or []
        counts: dict[str, int] = {}
        for pod in pods:
            name = pod.get("spec", {}).get("nodeName", "")
            counts[name] = counts.get(name, 0) + 1
        usage = self._usage(f"{self._path}/nodes", {})
        nodes = self._session.get("/api/v1/nodes")["items"] or []
        return [_node_usage(node, usage.get(node["metadata"]["name"]), counts) for node in nodes]

    def pods(self) -> list[PodUsage]:
        query = {"labelSelector": self._selector} if self._selector else {}
        usage = self._usage(f"{self._path}{self._scope}/pods", query)
        pods = self._session.get(f"/api/v1{self._scope}/pods", query)["items"] or []
        return [_pod_usage(pod, usage.get(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")) for pod in pods]

    def _usage(self, path: str, query: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
        """Return the metrics by name; empty while there are none."""
        items = self._session.get(path, query).get("items") or ()
        return {_key(item["metadata"]): item for item in items}


def _key(metadata: Mapping[str, Any]) -> str:
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _node_usage(node: Mapping[str, Any], metrics: Mapping[str, Any] | None, counts: Mapping[str, int]) -> NodeUsage:
    used = usage_of((metrics or {}).get("usage"))
    available = usage_of(node.get("status", {}).get("allocatable"))
    cpu, memory = (used.get(resource, Quantity()) for resource in RESOURCES)
    return NodeUsage(
        name=node["metadata"]["name"],
        state=_node_state(node),
        pods=counts.get(node["metadata"]["name"], 0),
        cpu_millicores=cpu.milli_value(),
        cpu_percent=_percent(cpu, available.get("cpu")),
        memory_bytes=memory.value(),
        memory_percent=_percent(memory, available.get("memory")),
    )


def _node_state(node: Mapping[str, Any]) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    is_ready = any((entry["type"], entry["status"]) == ("Ready", "True") for entry in conditions)
    cordoned = ",SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else ""
    return f"{'Ready' if is_ready else 'NotReady'}{cordoned}"


def _percent(used: Quantity, total: Quantity | None) -> int:
    return int(used.milli_value() * 100 / total.milli_value()) if total else 0


def _pod_usage(pod: Mapping[str, Any], metrics: Mapping[str, Any] | None) -> PodUsage:
    usages = [usage_of(container.get("usage")) for container in (metrics or {}).get("containers") or ()]
    status = pod.get("status", {})
    restarts = sum(entry.get("restartCount", 0) for entry in status.get("containerStatuses") or ())
    return PodUsage(
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        node=pod.get("spec", {}).get("nodeName", ""),
        state="Terminating" if pod["metadata"].get("deletionTimestamp") else status.get("phase", "Pending"),
        restarts=restarts,
        cpu_millicores=sum(usage.get("cpu", Quantity()).milli_value() for usage in usages),
        memory_bytes=sum(usage.get("memory", Quantity()).value() for usage in usages),
    )


# -- output ----------------------------------------------------------------------------------------------------------


def screen(kind: str, source: UsageSource, sort_by: str, *, is_cut: bool) -> list[str]:
    """Return the lines of the tables, in at most 80 columns if `is_cut`."""
    lines: list[str] = []
    if kind in ("all", "nodes"):
        nodes = sorted(source.nodes(), key=lambda node: (*_order(node, sort_by), node.name))
        lines += node_lines(nodes, is_cut=is_cut)
    if kind == "all":
        lines.append("")
    if kind in ("all", "pods"):
        pods = sorted(source.pods(), key=lambda pod: (*_order(pod, sort_by), pod.namespace, pod.name))
        lines += pod_lines(pods, is_cut=is_cut)
    return lines


def _order(usage: NodeUsage | PodUsage, sort_by: str) -> tuple[int, ...]:
    if sort_by == "name":
        return ()
    return (-(usage.cpu_millicores if sort_by == "cpu" else usage.memory_bytes),)


def node_lines(nodes: Sequence[NodeUsage], *, is_cut: bool) -> list[str]:
    if not nodes:
        return ["There are no nodes."]
    rows = [["NODE", "STATUS", "PODS", "CPU", "", "MEMORY", ""]]
    rows += [
        [
            _truncate(node.name, 15, is_cut),
            node.state.replace("SchedulingDisabled", "cordoned"),
            str(node.pods),
            f"{node.cpu_millicores}m",
            _bar(node.cpu_percent),
            f"{node.memory_bytes // _MIB}Mi",
            _bar(node.memory_percent),
        ]
        for node in nodes
    ]
    return [line.rstrip() for line in _table(rows)]


def pod_lines(pods: Sequence[PodUsage], *, is_cut: bool) -> list[str]:
    if not pods:
        return ["There are no pods."]
    rows = [["NAMESPACE", "POD", "NODE", "STATUS", "RESTARTS", "CPU", "MEMORY"]]
    rows += [
        [
            _truncate(pod.namespace, 12, is_cut),
            _truncate(pod.name, 22, is_cut),
            _truncate(pod.node, 10, is_cut),
            pod.state,
            str(pod.restarts),
            f"{pod.cpu_millicores}m",
            f"{pod.memory_bytes // _MIB}Mi",
        ]
        for pod in pods
    ]
    return [line.rstrip() for line in _table(rows)]


def _table(rows: list[list[str]]) -> list[str]:
    """Return aligned lines with narrower gaps between columns than those of kubectl, to fit into 80 columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _bar(percent: int) -> str:
    full = min(_BAR, round(percent * _BAR / 100))
    return f"{'█' * full}{'░' * (_BAR - full)} {percent}%"


def _truncate(text: str, max_length: int, is_cut: bool) -> str:
    return text if not is_cut or len(text) <= max_length else f"{text[: max_length - 1]}…"


def _value(kind: str, source: UsageSource) -> dict[str, Any]:
    value: dict[str, Any] = {}
    if kind in ("all", "nodes"):
        value["nodes"] = [_camel_case(asdict(node)) for node in source.nodes()]
    if kind in ("all", "pods"):
        value["pods"] = [_camel_case(asdict(pod)) for pod in source.pods()]
    return value


def _camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name.split("_")[0] + "".join(map(str.capitalize, name.split("_")[1:])): v for name, v in fields.items()}
