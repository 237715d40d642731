"""A cluster converges whatever is killed, deleted or powered off, and never runs a pod twice."""

import asyncio

import pytest

from tests.e2e.chaos.component_cluster import ChaosCluster, chaos_cluster
from tests.e2e.chaos.history import Rules
from tests.e2e.chaos.workloads import Sizes, unhealthy_workloads

FULL = Sizes(deployments=50, stateful_sets=20, jobs=20, daemon_sets=20, nodes=30)
HEALED_WITHIN_S = 900
"""In virtual time: pods of a silent node are evicted after five minutes, and controllers back off."""


async def wait_until_healed(s: ChaosCluster) -> None:
    await s.switch_on()
    left: list[str] = []
    for _ in range(HEALED_WITHIN_S // 15):
        await s.cluster.clock.advance(15)
        assert s.list_pods_running_twice() == []
        if not (left := await unhealthy_workloads(s.cluster.client)):
            return
    raise AssertionError(f"after {HEALED_WITHIN_S} s: {left}")


async def run_chaos(seed: int, sizes: Sizes, turns: int) -> None:
    async with asyncio.timeout(1500), chaos_cluster(seed, sizes) as s:
        for _ in range(turns):
            await s.cluster.clock.advance(s.random.choice([0, 1, 5, 30, 120]))
            assert s.list_pods_running_twice() == []
            await s.disturb()
        await wait_until_healed(s)
        changes = list(s.history.changes)
        await s.stop("controllers")
        await s.start_controllers()
        assert s.history.changes == changes, "restarted controllers must not write"
    assert list(Rules().violations(changes)) == []


def test_cluster_converges_after_40_random_disruptions() -> None:
    asyncio.run(run_chaos(1, FULL, 40))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(12))
def test_cluster_converges_after_150_random_disruptions(seed: int) -> None:
    asyncio.run(run_chaos(seed, FULL, 150))
