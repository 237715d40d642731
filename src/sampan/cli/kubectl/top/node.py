"""`kubectl top node`: show the resource usage of nodes."""

from __future__ import annotations

from typing import Any

import click

from sampan.api.quantity import Quantity
from sampan.cli.kubectl.command import KubectlCommand
from sampan.cli.kubectl.errors import KubectlError, UsageError
from sampan.cli.kubectl.factory import Factory
from sampan.cli.kubectl.options import selector_option
from sampan.cli.kubectl.top.metrics import (
    PATH,
    RESOURCES,
    SWAP,
    Usage,
    amount_text,
    check_available,
    check_sort,
    get_metrics,
    print_rows,
    sort_key,
    usage_of,
)

_UNKNOWN = "<unknown>"


@click.command("node", cls=KubectlCommand, aliases=("nodes", "no"))
@click.argument("words", nargs=-1)
@selector_option()
@click.option("--sort-by", default="", metavar="cpu|memory", help="Sort by usage, highest first.")
@click.option("--no-headers", is_flag=True, help="Print the table without the header line.")
@click.option(
    "--use-protocol-buffers",
    is_flag=True,
    default=True,
    hidden=True,
    help="Accepted without effect: requests use JSON.",
)
@click.option("--show-capacity", is_flag=True, help="Show shares of the capacity instead of what is allocatable.")
@click.option("--show-swap", is_flag=True, help="Show the usage of swap memory.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Show the CPU and memory usage of nodes."""
    if len(words) > 1:
        raise UsageError("node [NAME | -l label]")
    name = words[0] if words else ""
    check_sort(options["sort_by"])
    if name and options["selector"]:
        raise KubectlError("only one of NAME or --selector can be provided")
    session, query = factory.session, {"labelSelector": options["selector"]}
    check_available(session)
    metrics = get_metrics(session, f"{PATH}/nodes", name, query)
    if not metrics:
        raise KubectlError("metrics not available yet")
    nodes = get_metrics(session, "/api/v1/nodes", name, query)
    field = "capacity" if options["show_capacity"] else "allocatable"
    available = {node["metadata"]["name"]: _available(node, field) for node in nodes}
    resources = (*RESOURCES, SWAP) if options["show_swap"] else RESOURCES
    titles = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    titles += ["SWAP(bytes)", "SWAP(%)"] if options["show_swap"] else []
    rows = [] if options["no_headers"] else [titles]
    usages = [(item["metadata"]["name"], usage_of(item.get("usage"))) for item in metrics]
    usages.sort(key=lambda entry: (sort_key(entry[1], options["sort_by"]), entry[0]))
    for node_name, usage in usages:
        rows.append([node_name, *_cells(usage, available.pop(node_name, {}), resources)])
    rows += [[node_name, *[_UNKNOWN] * (2 * len(resources))] for node_name in available]
    print_rows(rows)


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
