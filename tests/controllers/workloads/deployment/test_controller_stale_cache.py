"""Deployments keep the limits of their rolling update, however stale the caches of the controllers are."""

from collections.abc import Sequence

import pytest

from sampan.api.semantics.pods import is_active, is_ready
from sampan.api.types.apps_v1 import Deployment
from sampan.api.types.core_v1 import Pod
from sampan.machinery.client import ADDED, DELETED
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.deployment.rollouts import create, get, reason, set_image, sizes
from tests.controllers.workloads.lag import Lag, lagging_controller, pod_history
from tests.controllers.workloads.scheduler_and_kubelet import end, run

SEEDS = range(8)
SURGE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


async def step_pod(c: Cluster) -> bool:
    """Run an unbound pod or remove a deleted pod; return whether there was one."""
    for pod in (await c.client.for_kind(Pod).list_all()).items:
        if pod.metadata.deletionTimestamp is not None:
            await end(c, pod)
            return True
        if not pod.spec.nodeName:
            await run(c, pod)
            return True
    return False


async def run_until_settled(c: Cluster, lags: Sequence[Lag], *, least: int, most: int) -> None:
    """Deliver events step by step, and check that `least` pods are ready and `most` pods are active at any time."""
    for _ in range(3000):
        await c.clock.settle()
        moved = await step_pod(c)
        stepped = [lag.step() for lag in lags]
        active = [pod for pod in (await c.client.for_kind(Pod).list_all()).items if is_active(pod)]
        assert len(active) <= most
        assert sum(is_ready(pod) for pod in active) >= least
        if not moved and not any(stepped):
            before = await c.revision()
            await c.clock.advance(0.5)
            if await c.revision() == before and not any(lag.step() for lag in lags):
                return
    raise AssertionError("the controllers do not settle")


@pytest.mark.parametrize("seed", SEEDS)
async def test_rolling_update_respects_max_surge_and_max_unavailable(seed: int) -> None:
    async with (
        pod_cluster() as c,
        lagging_controller(c, "deployment-controller", seed) as first,
        lagging_controller(c, "replicaset-controller", seed + 100) as other,
        pod_history(c) as entries,
    ):
        lags = (first, other)
        await create(c, 3, strategy=SURGE)
        await run_until_settled(c, lags, least=0, most=3)
        assert [(event_type, image) for event_type, _, image in entries] == [(ADDED, "i:1")] * 3
        entries.clear()
        await set_image(c, "i:2")
        await run_until_settled(c, lags, least=3, most=4)
        assert (
            sorted((event_type, image) for event_type, _, image in entries)
            == [(ADDED, "i:2")] * 3 + [(DELETED, "i:1")] * 3
        )
        assert (await sizes(c), await reason(c)) == ([0, 3], "NewReplicaSetAvailable")
        entries.clear()
        await c.client.for_kind(Deployment).patch("web", {"spec": {"replicas": 5}}, "default")
        await run_until_settled(c, lags, least=3, most=5)
        assert [(event_type, image) for event_type, _, image in entries] == [(ADDED, "i:2")] * 2
        assert (await get(c)).status.availableReplicas == 5
