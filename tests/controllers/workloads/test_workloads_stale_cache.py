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
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, FakeKubelet
from tests.controllers.workloads.lag import Lag, lagging_controller, pod_history
from tests.controllers.workloads.statefulset.objects import stateful_set

SEEDS = range(12)
IMAGE_TWO = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}


async def run_until_settled(cluster: Cluster, kubelet: FakeKubelet, *lags: Lag) -> None:
    """Deliver events step by step, while pods run and end immediately, until nothing is due in the next minute."""
    clock = cluster.clock
    for _ in range(3000):
        moved = [await kubelet.step(pod) for pod in (await kubelet.pods()).values()]
        moved += [lag.step() for lag in lags]
        if any(moved):
            continue
        wake = clock.next_wake()
        if wake is None or wake > clock.now() + 60:
            return
        await clock.advance(wake - clock.now())
    raise AssertionError("the controllers do not settle")


def run_scenario(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with pod_cluster() as c:
            await scenario(c)

    asyncio.run(main())


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_stateful_set_creates_each_pod_once(seed: int, policy: str) -> None:
    async def scenario(c: Cluster) -> None:
        kubelet, sets = FakeKubelet(c), c.client.for_kind(StatefulSet)
        async with lagging_controller(c, "statefulset-controller", seed) as lag, pod_history(c) as entries:
            await sets.create(stateful_set(3, policy=policy))
            await run_until_settled(c, kubelet, lag)
            assert sorted(entries) == [(ADDED, f"web-{at}", "one") for at in range(3)]
            entries.clear()
            await sets.patch("web", IMAGE_TWO, NAMESPACE)
            await run_until_settled(c, kubelet, lag)
            assert entries == [
                line for at in (2, 1, 0) for line in ((DELETED, f"web-{at}", "one"), (ADDED, f"web-{at}", "two"))
            ]
            status = (await sets.get("web", NAMESPACE)).status
            assert (status.readyReplicas, status.updatedReplicas) == (3, 3)
            assert status.currentRevision == status.updateRevision

    run_scenario(scenario)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_concurrent_stateful_set_controllers_create_each_pod_once(seed: int, policy: str) -> None:
    """Two leaders run for a while when one takes over: a recreated pod is not mistaken for the deleted pod."""

    async def scenario(c: Cluster) -> None:
        kubelet, sets, name = FakeKubelet(c), c.client.for_kind(StatefulSet), "statefulset-controller"
        async with (
            lagging_controller(c, name, seed) as first,
            lagging_controller(c, name, seed, pace=0.2) as other,
            pod_history(c) as entries,
        ):
            await sets.create(stateful_set(3, policy=policy))
            await run_until_settled(c, kubelet, first, other)
            assert sorted(entries) == [(ADDED, f"web-{at}", "one") for at in range(3)]
            entries.clear()
            await sets.patch("web", IMAGE_TWO, NAMESPACE)
            await run_until_settled(c, kubelet, first, other)
            assert sorted(entries) == sorted(
                line for at in range(3) for line in ((DELETED, f"web-{at}", "one"), (ADDED, f"web-{at}", "two"))
            )

    run_scenario(scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_daemon_set_runs_one_pod_on_each_node(seed: int) -> None:
    async def scenario(c: Cluster) -> None:
        kubelet, sets, nodes = FakeKubelet(c), c.client.for_kind(DaemonSet), c.client.for_kind(Node)
        for at in range(3):
            await nodes.create(node(f"n{at}"))
            await nodes.patch(f"n{at}", {"spec": {"taints": None}}, type=PatchType.MERGE)
        async with lagging_controller(c, "daemonset-controller", seed) as lag, pod_history(c) as entries:
            await sets.create(daemon_set())
            await run_until_settled(c, kubelet, lag)
            assert [(event_type, image) for event_type, _, image in entries] == [(ADDED, "one")] * 3
            entries.clear()
            await sets.patch("logs", IMAGE_TWO, NAMESPACE)
            await run_until_settled(c, kubelet, lag)
            assert [(event_type, image) for event_type, _, image in entries] == [(DELETED, "one"), (ADDED, "two")] * 3
            status = (await sets.get("logs", NAMESPACE)).status
            assert (status.numberAvailable, status.updatedNumberScheduled) == (3, 3)

    run_scenario(scenario)
