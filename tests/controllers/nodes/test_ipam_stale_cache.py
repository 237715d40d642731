"""Pod CIDRs of nodes stay disjoint however stale the caches are and however often the controller restarts."""

from ipaddress import ip_network
from itertools import combinations
from random import Random

import pytest

from sampan.api.types.core_v1 import Node
from sampan.controllers.descriptor import ControllerConfig
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.nodes.fleet import Fleet
from tests.controllers.workloads.lag import Lag, lagging_controller


@pytest.mark.parametrize("seed", range(6))
async def test_no_two_nodes_share_a_pod_cidr(seed: int) -> None:
    config = ControllerConfig(allocate_node_cidrs=True, cluster_cidr=["10.0.0.0/20"])
    async with cluster() as c:
        random, names = Random(seed), set[str]()
        for start in range(3):
            async with lagging_controller(c, "node-ipam-controller", seed + start, config=config) as slow:
                for _ in range(12):
                    await change(c, random, names)
                    for _ in range(random.randrange(6)):
                        slow.step()
                        await c.clock.settle()
                    await check_disjoint(c)
                if start == 2:
                    await run_until_settled(c, slow)
                    assert all(await check_disjoint(c)), "a node has no pod CIDR"


async def change(c: Cluster, random: Random, names: set[str]) -> None:
    """Add or delete a node; a new node may have the name of a deleted one."""
    if names and random.random() < 0.4:
        name = random.choice(sorted(names))
        names.remove(name)
        await c.client.for_kind(Node).delete(name)
        return
    name = f"n{random.randrange(9)}"
    if name not in names:
        await Fleet(c).add(name, ready=random.choice(["True", None]))
        names.add(name)


async def run_until_settled(c: Cluster, slow: Lag) -> None:
    """Deliver all cached events step by step, and let failed syncs be retried."""
    for _ in range(30):
        while slow.step():
            await c.clock.settle()
        await c.clock.advance(1)


async def check_disjoint(c: Cluster) -> list[str]:
    cidrs = [node.spec.podCIDR for node in (await c.client.for_kind(Node).list()).items]
    networks = [ip_network(cidr) for cidr in cidrs if cidr]
    assert not any(first.overlaps(other) for first, other in combinations(networks, 2))
    return cidrs
