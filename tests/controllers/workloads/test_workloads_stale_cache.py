"""StatefulSets and DaemonSets create no pod twice and delete none too many, however stale the caches are."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sampan.api.types.apps_v1 import DaemonSet, StatefulSet
from sampan.api.types.core_v1 import Node
from sampan.machinery.client import ADDED, DELETED, PatchType
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.daemonset.objects import daemon_set, node
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, Stage
from tests.controllers.workloads.lag import Lag, diary, lagging
from tests.controllers.workloads.statefulset.objects import stateful_set

SEEDS = range(12)
TWO = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}


async def until_rest(cluster: Cluster, stage: Stage, *lags: Lag) -> None:
    """Let the controller see things bit by bit, while pods run and end at once."""
    for _ in range(3000):
        await cluster.clock.settle()
        moved = [await stage.move(pod) for pod in (await stage.pods()).values()]
        moved += [lag.step() for lag in lags]
        if not any(moved):
            if cluster.clock.next_wake() is None:
                return
            before = cluster.clock.now()
            await cluster.clock.advance(1)
            if before > 1_767_225_600.0 + 60:
                return
    raise AssertionError("it never comes to rest")


def played(play: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with pod_cluster() as c:
            await play(c)

    asyncio.run(main())


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_stateful_set_creates_each_pod_once(seed: int, policy: str) -> None:
    async def play(c: Cluster) -> None:
        stage, sets = Stage(c), c.client.of(StatefulSet)
        async with lagging(c, "statefulset-controller", seed) as lag, diary(c) as entries:
            await sets.create(stateful_set(3, policy=policy))
            await until_rest(c, stage, lag)
            assert sorted(entries) == [(ADDED, f"web-{at}", "one") for at in range(3)]
            entries.clear()
            await sets.patch("web", TWO, NAMESPACE)
            await until_rest(c, stage, lag)
            assert entries == [
                line for at in (2, 1, 0) for line in ((DELETED, f"web-{at}", "one"), (ADDED, f"web-{at}", "two"))
            ]
            status = (await sets.get("web", NAMESPACE)).status
            assert (status.readyReplicas, status.updatedReplicas) == (3, 3)
            assert status.currentRevision == status.updateRevision

    played(play)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_stateful_set_controllers_at_a_time_create_each_pod_once(seed: int, policy: str) -> None:
    """As when one takes over while the other has not noticed: what is new is not taken for what was there before."""

    async def play(c: Cluster) -> None:
        stage, sets, name = Stage(c), c.client.of(StatefulSet), "statefulset-controller"
        async with lagging(c, name, seed) as first, lagging(c, name, seed, pace=0.2) as other, diary(c) as entries:
            await sets.create(stateful_set(3, policy=policy))
            await until_rest(c, stage, first, other)
            assert sorted(entries) == [(ADDED, f"web-{at}", "one") for at in range(3)]
            entries.clear()
            await sets.patch("web", TWO, NAMESPACE)
            await until_rest(c, stage, first, other)
            assert sorted(entries) == sorted(
                line for at in range(3) for line in ((DELETED, f"web-{at}", "one"), (ADDED, f"web-{at}", "two"))
            )

    played(play)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_daemon_set_runs_one_pod_on_each_node(seed: int) -> None:
    async def play(c: Cluster) -> None:
        stage, sets, nodes = Stage(c), c.client.of(DaemonSet), c.client.of(Node)
        for at in range(3):
            await nodes.create(node(f"n{at}"))
            await nodes.patch(f"n{at}", {"spec": {"taints": None}}, type=PatchType.MERGE)
        async with lagging(c, "daemonset-controller", seed) as lag, diary(c) as entries:
            await sets.create(daemon_set())
            await until_rest(c, stage, lag)
            assert [(what, image) for what, _, image in entries] == [(ADDED, "one")] * 3
            entries.clear()
            await sets.patch("logs", TWO, NAMESPACE)
            await until_rest(c, stage, lag)
            assert [(what, image) for what, _, image in entries] == [(DELETED, "one"), (ADDED, "two")] * 3
            status = (await sets.get("logs", NAMESPACE)).status
            assert (status.numberAvailable, status.updatedNumberScheduled) == (3, 3)

    played(play)
