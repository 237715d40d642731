"""`kubectl top`: print the resource usage of nodes and pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sampan.api import quantity
from sampan.cli.failures import CliError
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.printers.table import print_table
from sampan.cli.kubectl.session import ServerError, Session

_PATH = "/apis/metrics.k8s.io/v1beta1"
_MIB = 1 << 20

Value = Mapping[str, Any]


@click.command("top", cls=KubectlCommand)
@click.argument("words", nargs=-1, required=True)
@click.option("-l", "--selector", default="", help="Label selector to filter by.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Show pods of all namespaces.")
@click.option("--containers", is_flag=True, help="Show the usage of each container.")
@click.option("--sort-by", type=click.Choice(["cpu", "memory"]), help="Sort by cpu or memory, highest usage first.")
@click.option("--no-headers", is_flag=True, help="Print the table without the header line.")
@click.option("--sum", "has_sum", is_flag=True, help="Print the sum of the usage in the last line.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Show the CPU and memory usage of nodes or pods.

    \b
    Examples:
      sampan kubectl top nodes
      sampan kubectl top pods -A
    """
    session = factory.session
    kind, name = words[0], words[1] if len(words) > 1 else ""
    if kind in ("node", "nodes", "no"):
        _nodes(session, name, options)
    elif kind in ("pod", "pods", "po"):
        _pods(session, name, options)
    else:
        raise CliError(f'unknown command "{kind}" for "kubectl top"')


def _metrics(session: Session, path: str, name: str, selector: str) -> list[Value]:
    try:
        if name:
            return [session.get(f"{path}/{name}")]
        return list(session.get(path, {"labelSelector": selector} if selector else None)["items"] or ())
    except ServerError as error:
        if error.error.code == 404 and not name:
            raise CliError("Metrics API not available") from None
        raise


def _nodes(session: Session, name: str, options: Mapping[str, Any]) -> None:
    metrics = _metrics(session, f"{_PATH}/nodes", name, options["selector"])
    nodes = [session.get(f"/api/v1/nodes/{name}")] if name else session.get("/api/v1/nodes")["items"]
    room = {node["metadata"]["name"]: node["status"].get("allocatable") or {} for node in nodes}
    rows = [(item["metadata"]["name"], *_usage(item["usage"])) for item in metrics]
    heading = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    table = [heading] if not options["no_headers"] else []
    for node, cpu, memory in _sorted(rows, options["sort_by"]):
        have = room.get(node, {})
        table.append(
            [
                node,
                f"{cpu}m",
                _share(cpu, _milli(have.get("cpu"))),
                f"{memory // _MIB}Mi",
                _share(memory, _bytes(have.get("memory"))),
            ]
        )
    _print(table)


def _pods(session: Session, name: str, options: Mapping[str, Any]) -> None:
    where = "" if options["everywhere"] else f"/namespaces/{session.namespace}"
    metrics = _metrics(session, f"{_PATH}{where}/pods", name, options["selector"])
    if not metrics:
        what = "" if options["everywhere"] else f" in {session.namespace} namespace"
        click.echo(f"No resources found{what}.", err=True)
        return
    heading = ["NAMESPACE"] * options["everywhere"] + ["POD", "NAME"] * options["containers"]
    heading += [] if options["containers"] else ["NAME"]
    table = [[*heading, "CPU(cores)", "MEMORY(bytes)"]] if not options["no_headers"] else []
    total_cpu = total_memory = 0
    for names, cpu, memory in _sorted(_rows(metrics, options), options["sort_by"]):
        table.append([*names, f"{cpu}m", f"{memory // _MIB}Mi"])
        total_cpu, total_memory = total_cpu + cpu, total_memory + memory
    if options["has_sum"]:
        blank = [""] * len(heading)
        table += [[*blank, "________", "________"], [*blank, f"{total_cpu}m", f"{total_memory // _MIB}Mi"]]
    _print(table)


def _rows(metrics: Sequence[Value], options: Mapping[str, Any]) -> list[tuple[Any, int, int]]:
    rows: list[tuple[Any, int, int]] = []
    for item in metrics:
        meta = item["metadata"]
        before = [meta["namespace"]] * options["everywhere"]
        usages = [(container["name"], *_usage(container["usage"])) for container in item["containers"]]
        if options["containers"]:
            rows += [([*before, meta["name"], name], cpu, memory) for name, cpu, memory in usages]
        else:
            rows.append(([*before, meta["name"]], sum(usage[1] for usage in usages), sum(usage[2] for usage in usages)))
    return rows


def _sorted(rows: Sequence[tuple[Any, int, int]], by: str | None) -> list[tuple[Any, int, int]]:
    if by is None:
        return sorted(rows, key=lambda row: row[0])
    return sorted(rows, key=lambda row: row[1 if by == "cpu" else 2], reverse=True)


def _usage(usage: Value) -> tuple[int, int]:
    return _milli(usage.get("cpu")), _bytes(usage.get("memory"))


def _milli(text: Any) -> int:
    return quantity.from_json(text or "0").milli_value()


def _bytes(text: Any) -> int:
    return -(-quantity.from_json(text or "0").milli_value() // 1000)


def _share(used: int, room: int) -> str:
    return f"{used * 100 // room}%" if room else "<unknown>"


def _print(table: Sequence[Sequence[str]]) -> None:
    print_table([[*row, ""] for row in table])
