"""The range of a node's pods: given by the cluster, kept, or taken."""

import asyncio
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import Node
from sampan.kubelet.agent.node_status_updater import read_pod_cidrs
from sampan.machinery.client import Client
from sampan.testing import Cluster
from tests.e2e.chaos.interruptible_transport import Line
from tests.eventually import eventually
from tests.kubelet.agent.real_node import NAME, real_node

OWN = "10.222.3.0/24"


async def ready(client: Client) -> Node:
    """Wait until the node is ready, and return it."""
    nodes: list[Node] = []

    async def is_ready() -> bool:
        nodes[:] = [await client.of(Node).get(NAME)]
        return [row.status for row in nodes[0].status.conditions if row.type == "Ready"] == ["True"]

    await eventually(is_ready)
    return nodes[0]


def played(tmp_path: Path, pod_cidr: str = "", **config: Any) -> Node:
    """The node once it is ready; somebody may give it a range meanwhile."""

    async def main() -> Node:
        line = Line()
        async with Cluster(components=("apiserver", "controllers")) as cluster:
            line.open(cluster.assembly.transport)
            async with real_node(tmp_path, line, needs_pod_cidr=True, **config) as kubelet:
                await kubelet.ready.wait()
                if pod_cidr:
                    await cluster.client.of(Node).patch(NAME, {"spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}})
                node = await ready(cluster.client)
                await line.cut()
                return node

    return asyncio.run(main())


def test_a_node_that_nobody_gives_a_range_takes_one(tmp_path: Path) -> None:
    assert played(tmp_path, own_pod_cidrs=[OWN]).spec.podCIDRs == [OWN]
    assert read_pod_cidrs(tmp_path / "kubelet") == [OWN]


def test_what_the_cluster_gives_goes_before(tmp_path: Path) -> None:
    assert played(tmp_path, "10.9.8.0/24", own_pod_cidrs=[OWN]).spec.podCIDRs == ["10.9.8.0/24"]
    assert read_pod_cidrs(tmp_path / "kubelet") == ["10.9.8.0/24"]
