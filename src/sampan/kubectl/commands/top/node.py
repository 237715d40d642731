"""`kubectl top node`: show the resource usage of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.api.values.quantity import Quantity
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import bool_flag
from sampan.kubectl.commands.top import metrics
from sampan.kubectl.commands.top.metrics import SWAP, Usage, amount_text, sort_key, usage_of
from sampan.kubectl.errors import KubectlError

_UNKNOWN = "<unknown>"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions(metrics.TopOptions):
    show_capacity: bool = bool_flag(
        "--show-capacity", help="Show shares of the capacity instead of what is allocatable."
    )


@KubectlCommand.define("node", NodeOptions, aliases=("nodes", "no"))
def command(factory: Factory, options: NodeOptions) -> None:
    """Show the CPU and memory usage of nodes."""
    name = metrics.selected_name("node", options)
    if name and options.selector:
        raise KubectlError("only one of NAME or --selector can be provided")
    session, query = factory.session, {"labelSelector": options.selector}
    listed = metrics.get_metrics(session, f"{metrics.find_path(session)}/nodes", name, query)
    if not listed:
        raise KubectlError("metrics not available yet")
    nodes = metrics.get_metrics(session, "/api/v1/nodes", name, query)
    field = "capacity" if options.show_capacity else "allocatable"
    available = {node["metadata"]["name"]: _available(node, field) for node in nodes}
    resources = metrics.shown_resources(options)
    titles = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    titles += ["SWAP(bytes)", "SWAP(%)"] if options.show_swap else []
    rows = [] if options.no_headers else [titles]
    usages = [(item["metadata"]["name"], usage_of(item.get("usage"))) for item in listed]
    usages.sort(key=lambda entry: (sort_key(entry[1], options.sort_by), entry[0]))
    for node_name, usage in usages:
        rows.append([node_name, *_cells(usage, available.pop(node_name, {}), resources)])
    rows += [[node_name, *[_UNKNOWN] * (2 * len(resources))] for node_name in available]
    metrics.print_rows(rows)


def _available(node: dict[str, Any], field: str) -> Usage:
    status = node.get("status") or {}
    amounts = dict(usage_of(status.get(field)))
    swap = ((status.get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    return amounts if swap is None else {**amounts, SWAP: Quantity(int(swap))}


def _cells(usage: Usage, available: Usage, resources: tuple[str, ...]) -> list[str]:
    cells = []
    for resource in resources:
        total = available.get(resource)
        if resource == SWAP and total is None:
            cells += [_UNKNOWN, _UNKNOWN]
            continue
        cells.append(amount_text(resource, usage.get(resource)))
        if total is not None:
            used = usage.get(resource, Quantity()).milli_value()
            cells.append(f"{int(used / total.milli_value() * 100) if total else 0}%")
    return cells
