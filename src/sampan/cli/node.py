"""`sampan node`: add and remove nodes of a running cluster.

The commands use the API server, with the administrator's kubeconfig in the data directory. To add a node is to create
its Node object, which the process of the cluster watches. This needs no other access to the process, changes survive a
restart, and `kubectl` can make the same changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from sampan.api.codec import json
from sampan.api.types.core_v1 import NodeStatus, Taint
from sampan.api.values import quantity
from sampan.cli.command_classes import AliasGroup
from sampan.cli.local_cluster.cluster_dir import running_cluster_options, select_cluster
from sampan.cli.status.cluster_report import STOPPED
from sampan.kubectl.client.session import Session
from sampan.kubectl.commands.get.get_options import TABLE
from sampan.kubectl.printers.table import cell_text, table_lines
from sampan.kubelet import hollow_nodes
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import kubeconfig

_NODES = "/api/v1/nodes"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_MERGE = "application/merge-patch+json"
_READY_TIMEOUT_S = 30
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@click.group("node", cls=AliasGroup)
def command() -> None:
    """Add, remove, stop and start nodes of a running cluster."""


@command.command("add")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--count", type=click.IntRange(min=1), help="Number of nodes to add, named after the next free numbers. Default: 1."
)
@click.option(
    "--runtime",
    type=click.Choice(["hollow", "real"]),
    help="Container runtime of the new nodes. Default: that of the other nodes of the cluster.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="K=V",
    help="Label KEY=VALUE of the new nodes; can be given several times.",
)
@click.option(
    "--taint",
    "taints",
    multiple=True,
    metavar="K[=V]:EFFECT",
    help="Taint KEY=VALUE:EFFECT of the new nodes; can be given several times.",
)
@click.option("--cpu", metavar="N", help=f"CPU capacity of each hollow node. Default: {hollow_nodes.CAPACITY['cpu']}.")
@click.option(
    "--memory", metavar="N", help=f"Memory capacity of each hollow node. Default: {hollow_nodes.CAPACITY['memory']}."
)
@click.option(
    "--pods", metavar="N", help=f"Largest number of pods on each hollow node. Default: {hollow_nodes.CAPACITY['pods']}."
)
@running_cluster_options
def add(names: tuple[str, ...], count: int | None, data_dir: str | None, cluster: str | None, **options: Any) -> None:
    """Add nodes, and wait until they are ready."""
    if names and count is not None:
        raise CliError("--count: cannot be used together with names of nodes")
    capacity = {key: _quantity(f"--{key}", options[key]) for key in ("cpu", "memory", "pods") if options[key]}
    labels, taints = labels_of(options["labels"]), [_taint(text) for text in options["taints"]]
    session = _open(data_dir, cluster)
    runtime = _runtime(session, options["runtime"])
    if capacity and runtime != hollow_nodes.HOLLOW:
        raise CliError(
            f"--{next(iter(capacity))}: cannot be set for a real node, which has the capacity of the machine"
        )
    began: dict[str, float] = {}
    for node_name in names or _free_names(session, count or 1):
        began[node_name] = time.monotonic()
        node = hollow_nodes.hollow_node(node_name, labels=labels, taints=taints, capacity=capacity)
        if runtime != hollow_nodes.HOLLOW:
            node.metadata.annotations[hollow_nodes.RUNTIME], node.status = runtime, NodeStatus()
        session.send("POST", _NODES, body=json.encode(node))
    for node_name, added_at in began.items():
        _wait_until_ready(session, node_name)
        click.echo(f"node {node_name} is ready ({time.monotonic() - added_at:.2f} s)")


@command.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@running_cluster_options
def remove(names: tuple[str, ...], data_dir: str | None, cluster: str | None) -> None:
    """Remove nodes and stop all pods that run on them.

    To move the pods to other nodes first, use `kubectl drain`.
    """
    session = _open(data_dir, cluster)
    for node_name in names:
        _check(session, node_name)
        session.send("DELETE", f"{_NODES}/{node_name}")
        click.echo(f"node {node_name} removed")


@command.command("stop")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@running_cluster_options
def stop(names: tuple[str, ...], data_dir: str | None, cluster: str | None) -> None:
    """Stop nodes abruptly, as a power failure would.

    The API server is not notified, and the containers of the nodes are lost.
    """
    session = _open(data_dir, cluster)
    for node_name in names:
        _set_power(session, node_name, hollow_nodes.OFF)
        click.echo(f"node {node_name} stopped")


@command.command("start")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@running_cluster_options
def start(names: tuple[str, ...], data_dir: str | None, cluster: str | None) -> None:
    """Start stopped nodes, which restart their containers."""
    session = _open(data_dir, cluster)
    for node_name in names:
        before = _read_renew_time(session, node_name)
        _set_power(session, node_name, None)
        _wait_until_ready(session, node_name, partial(_is_back, session, node_name, before))
        click.echo(f"node {node_name} is ready")


@command.command("ls")
@click.option("-o", "--output", type=click.Choice(["wide"]), help="Show all columns, as `kubectl get nodes -o wide`.")
@running_cluster_options
def list_nodes(data_dir: str | None, cluster: str | None, output: str | None) -> None:
    """List the nodes of the cluster, as `kubectl get nodes`."""
    session = _open(data_dir, cluster)
    table = session.get(_NODES, {"includeObject": "Metadata"}, accept=TABLE)
    definitions = table["columnDefinitions"]
    shown = [position for position, column in enumerate(definitions) if output == "wide" or not column["priority"]]
    columns = [definitions[position]["name"].upper() for position in shown]
    rows = [[cell_text(cells[position]) for position in shown] for cells in map(_cells, table.get("rows") or [])]
    if not rows:
        click.echo("there are no nodes; `sampan node add` adds one")
        return
    for line in table_lines([columns, *rows]):
        click.echo(line.rstrip())


def _cells(row: dict[str, Any]) -> list[Any]:
    """Return the cells of a node. One that was stopped is Ready in the API until its lease has expired."""
    cells = list(row["cells"])
    if _is_powered_off(row["object"]):
        cells[1] = ",".join([STOPPED, *str(cells[1]).split(",")[1:]])
    return cells


# -- internals -------------------------------------------------------------------------------------------------------


def _open(data_dir: str | None, cluster: str | None) -> Session:
    directory = select_cluster(data_dir, cluster)
    if directory.read_note_if_running() is None:
        raise CliError(f"{directory.name} is not running; `sampan up` starts it")
    try:
        session = Session(kubeconfig.load(directory.kubeconfig), "default")
    except kubeconfig.KubeconfigError as error:
        raise CliError(str(error)) from None
    click.get_current_context().call_on_close(session.close)
    return session


def _set_power(session: Session, name: str, value: str | None) -> None:
    _check(session, name)
    patch = {"metadata": {"annotations": {hollow_nodes.POWER: value}}}
    session.send("PATCH", f"{_NODES}/{name}", body=patch, content_type=_MERGE)


def _check(session: Session, name: str) -> None:
    """Raise CliError unless the process of the cluster runs the node."""
    if not _runtime_of(session.get(f"{_NODES}/{name}")):
        raise CliError(
            f"node {name} is not run by this cluster's process: it cannot be started, stopped or removed here"
        )


def _runtime_of(node: dict[str, Any]) -> str:
    runtime: str = node["metadata"].get("annotations", {}).get(hollow_nodes.RUNTIME, "")
    return runtime


def _is_powered_off(node: dict[str, Any]) -> bool:
    return bool(node["metadata"].get("annotations", {}).get(hollow_nodes.POWER) == hollow_nodes.OFF)


def _runtime(session: Session, requested: str | None) -> str:
    """Return the runtime of new nodes: the requested one, or else that of the cluster's real nodes if there are any."""
    runtimes = {_runtime_of(item) for item in session.get(_NODES)["items"]} - {"", hollow_nodes.HOLLOW}
    if requested == hollow_nodes.HOLLOW or (requested is None and not runtimes):
        return hollow_nodes.HOLLOW
    if not runtimes:
        raise CliError("--runtime: this cluster has no real nodes; start the cluster with `sampan up --nodes 1`")
    return min(runtimes)


def _free_names(session: Session, count: int) -> Sequence[str]:
    used_names = [item["metadata"]["name"] for item in session.get(_NODES)["items"]]
    return hollow_nodes.free_names(used_names, count)


def _read_renew_time(session: Session, name: str) -> str:
    """Return the time of the node's last heartbeat."""
    leases: list[dict[str, Any]] = session.get(_LEASES)["items"]
    return next((str(item["spec"].get("renewTime")) for item in leases if item["metadata"]["name"] == name), "")


def _is_back(session: Session, name: str, before: str) -> bool:
    return _read_renew_time(session, name) != before


def _wait_until_ready(session: Session, name: str, is_back: Callable[[], bool] = lambda: True) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if is_back() and _is_ready(session.get(f"{_NODES}/{name}")):
            return
        time.sleep(0.02)
    raise CliError(f"node {name} is not ready after {_READY_TIMEOUT_S} s; does the cluster run its kubelet?")


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise CliError(f"--label: want K=V, not {text!r}")
        labels[key] = value
    return labels


def _quantity(flag: str, text: str) -> str:
    try:
        is_valid = quantity.parse(text).mantissa >= 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise CliError(f"{flag}: {text!r} is not a quantity; examples: 4, 500m, 8Gi")
    return text


def _taint(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise CliError(f"--taint: want K=V:EFFECT with one of {', '.join(_EFFECTS)}, not {text!r}")
    return Taint(key=key, value=value, effect=effect)
