"""The flags of `sampan up` for nodes, and their conversion to a NodesConfig."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sampan.cli.local_cluster.cluster_dir import ClusterDir
from sampan.cluster.cluster_config import KUBELET
from sampan.cluster.nodes.nodes_config import AUTO_NETWORK, NODE_NETWORKS, NodesConfig
from sampan.machinery.cli_errors import CliError
from sampan.network.mesh.config import BACKENDS
from sampan.runtimes.names import AUTO, CRI, HOLLOW, RUNTIMES

if TYPE_CHECKING:
    from sampan.runtimes.choice import RuntimeChoice

_CRI_SINGLE_NODE_MESSAGE = (
    "a CRI runtime has one network for all of its pods and can serve only one node; "
    "--runtime oci and --runtime docker can run several nodes"
)


_MAX_REAL_NODES = 100
"""A real node costs a kubelet, a proxy, a monitor process and a network namespace: thousands stop the machine."""
_SIMULATE = f"--runtime {HOLLOW} simulates thousands"


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--nodes",
            type=int,
            help="Number of nodes to run. Default: one if this machine can run containers or with --runtime hollow, "
            "otherwise none.",
        ),
        click.option(
            "--runtime",
            type=click.Choice(RUNTIMES),
            default=AUTO,
            show_default=True,
            help="Container runtime of the nodes; auto picks the best one available, hollow simulates pods.",
        ),
        click.option(
            "--container-runtime-endpoint",
            metavar="SOCKET",
            help="Socket of containerd, CRI-O or Docker. Default: the well-known sockets are tried.",
        ),
        click.option(
            "--node-network",
            type=click.Choice(NODE_NETWORKS),
            default=AUTO_NETWORK,
            show_default=True,
            help="Network of the nodes: own gives each node a network namespace and an address of its own, host lets "
            "them share the network of this machine; auto is own for --runtime oci where this machine supports it.",
        ),
        click.option(
            "--network-policy/--no-network-policy",
            default=True,
            show_default=True,
            help="Enforce NetworkPolicies on nodes whose pods have addresses of their own.",
        ),
        click.option(
            "--pod-network",
            type=click.Choice(BACKENDS),
            default=BACKENDS[0],
            show_default=True,
            help="How pods of this machine reach those of machines that join the cluster: auto uses plain routes "
            "inside a subnet and a tunnel between subnets.",
        ),
        click.option("--hollow-stages", metavar="F", help="YAML file that describes how pods on hollow nodes behave."),
        click.option(
            "--hollow-events/--no-hollow-events",
            default=True,
            show_default=True,
            help="Record Events for pods on hollow nodes.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def nodes_config(options: Mapping[str, Any], components: Sequence[str], directory: ClusterDir) -> NodesConfig:
    count, runtime = options["nodes"], options["runtime"]
    if count is not None and count < 0:
        raise CliError("--nodes: cannot be negative")
    if count and KUBELET not in components:
        raise CliError(f"--nodes: needs {KUBELET} in --components")
    common = NodesConfig(
        stages=_stages(options["hollow_stages"]),
        has_events=options["hollow_events"],
        root=directory.path / "nodes",
        images=directory.images,
        node_network=options["node_network"],
        has_network_policy=options["network_policy"],
        pod_network=options["pod_network"],
    )
    if runtime == HOLLOW and count is None and KUBELET in components:
        return replace(common, count=1)
    if runtime == HOLLOW or count == 0 or KUBELET not in components:
        return replace(common, count=count or 0)
    choice, why_not = find_usable_runtime(runtime, options["container_runtime_endpoint"] or "")
    if choice is not None:
        number = 1 if count is None else count
        if choice.runtime == CRI and number > 1:
            raise CliError(f"--nodes: {_CRI_SINGLE_NODE_MESSAGE}")
        if number > _MAX_REAL_NODES:
            raise CliError(f"--nodes: one machine runs at most {_MAX_REAL_NODES} real nodes; {_SIMULATE}")
        return replace(common, count=number, runtime=choice.runtime, endpoint=choice.endpoint, about=choice.why)
    if count is None and runtime == AUTO:
        return replace(common, note=f"there is no node: {why_not}")
    raise CliError(f"--runtime: {why_not}")


def find_usable_runtime(requested: str, endpoint: str = "") -> tuple[RuntimeChoice | None, str]:
    """Return the runtime that can run pods on this machine; if there is none, return the reason and a remedy."""
    from sampan.runtimes.choice import NoRuntime, choose_runtime

    try:
        return asyncio.run(choose_runtime(requested, endpoint)), ""
    except NoRuntime as error:
        message = str(error)
    if requested == AUTO and not endpoint:
        message += ". As root, with crun or runc, pods can run; --runtime process runs them without isolation"
        message += f", --runtime {HOLLOW} --nodes 1 simulates them"
    return None, message


def _stages(path: str | None) -> Path | None:
    """Parse the stage file early, so that errors are reported before anything starts."""
    if not path:
        return None
    from sampan.runtimes.hollow.behavior import StageError, read_stages

    flag = "--hollow-stages"
    try:
        read_stages(Path(path))
    except StageError as error:
        raise CliError(f"{flag}: {error}") from None
    return Path(path).absolute()
