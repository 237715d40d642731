"""The pod CIDR of a node: assigned by the cluster, or configured on the node."""

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

CONFIGURED = "10.222.3.0/24"


async def wait_until_ready(client: Client) -> Node:
    """Wait until the node is ready, and return it."""
    nodes: list[Node] = []

    async def is_ready() -> bool:
        nodes[:] = [await client.for_kind(Node).get(NAME)]
        return [row.status for row in nodes[0].status.conditions if row.type == "Ready"] == ["True"]

    await eventually(is_ready)
    return nodes[0]


def node_when_ready(tmp_path: Path, pod_cidr: str = "", **config: Any) -> Node:
    """Run a node until it is ready, optionally with an assigned pod CIDR, and return it."""

    async def main() -> Node:
        line = Line()
        async with Cluster(components=("apiserver", "controllers")) as cluster:
            line.open(cluster.assembly.transport)
            async with real_node(tmp_path, line, needs_pod_cidr=True, **config) as kubelet:
                await kubelet.ready.wait()
                if pod_cidr:
                    await cluster.client.for_kind(Node).patch(
                        NAME, {"spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}}
                    )
                node = await wait_until_ready(cluster.client)
                await line.cut()
                return node

    return asyncio.run(main())


def test_node_without_assigned_pod_cidr_uses_its_configured_pod_cidr(tmp_path: Path) -> None:
    assert node_when_ready(tmp_path, own_pod_cidrs=[CONFIGURED]).spec.podCIDRs == [CONFIGURED]
    assert read_pod_cidrs(tmp_path / "kubelet") == [CONFIGURED]


def test_assigned_pod_cidr_overrides_the_configured_pod_cidr(tmp_path: Path) -> None:
    assert node_when_ready(tmp_path, "10.9.8.0/24", own_pod_cidrs=[CONFIGURED]).spec.podCIDRs == ["10.9.8.0/24"]
    assert read_pod_cidrs(tmp_path / "kubelet") == ["10.9.8.0/24"]
