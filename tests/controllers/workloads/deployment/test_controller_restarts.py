"""Deployments reach their desired state while controllers are stopped at any moment and pods are deleted."""

import asyncio
from random import Random

import pytest

from sampan.api.semantics.owners import controller_of
from sampan.api.semantics.pods import is_ready
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.testing import builders
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.scheduler_and_kubelet import end, run, settle_pods

NAMES = ("deployment-controller", "replicaset-controller")
COUNT, REPLICAS, ROUNDS = 5, 3, 12


async def disturb(c: Cluster, random: Random) -> None:
    """Run, end or delete a random pod, or change the image or the replicas of a random Deployment."""
    pods = (await c.client.for_kind(Pod).list_all()).items
    name = f"d{random.randrange(COUNT)}"
    match random.randrange(5):
        case 0 if pods:
            await end(c, random.choice(pods))
        case 1 if pods:
            pod = random.choice(pods)
            if not pod.spec.nodeName and pod.metadata.deletionTimestamp is None:
                await run(c, pod)
        case 2:
            container = {"name": "main", "image": f"i:{random.randrange(3)}"}
            patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
            await c.client.for_kind(Deployment).patch(name, patch, "default")
        case 3:
            await c.client.for_kind(Deployment).patch(name, {"spec": {"replicas": random.randrange(1, 6)}}, "default")
        case 4 if pods:
            await c.client.for_kind(Pod).delete(random.choice(pods).metadata.name, "default")


async def check(c: Cluster) -> None:
    """Check that each Deployment has one ReplicaSet with pods, of its template and size, and no other pods exist."""
    sets = (await c.client.for_kind(ReplicaSet).list_all()).items
    pods = (await c.client.for_kind(Pod).list_all()).items
    for deployment in (await c.client.for_kind(Deployment).list_all()).items:
        own = [rs for rs in sets if (ref := controller_of(rs)) is not None and ref.uid == deployment.metadata.uid]
        (only,) = [rs for rs in own if rs.spec.replicas]
        assert only.spec.template.spec == deployment.spec.template.spec
        its_pods = [pod for pod in pods if (ref := controller_of(pod)) is not None and ref.uid == only.metadata.uid]
        assert len(its_pods) == REPLICAS
        assert all(is_ready(pod) for pod in its_pods)
        status = deployment.status
        counts = {status.replicas, status.updatedReplicas, status.readyReplicas, status.availableReplicas}
        assert counts == {REPLICAS}
        assert status.observedGeneration == deployment.metadata.generation
        revisions = [rs.metadata.annotations["deployment.kubernetes.io/revision"] for rs in own]
        assert len(set(revisions)) == len(revisions)
        assert deployment.metadata.annotations["deployment.kubernetes.io/revision"] == max(revisions, key=int)
    assert len(pods) == COUNT * REPLICAS


@pytest.mark.parametrize("seed", range(6))
async def test_deployments_complete_despite_restarts(seed: int) -> None:
    random = Random(seed)
    async with pod_cluster() as c:
        for at in range(COUNT):
            new = builders.deployment(f"d{at}", replicas=REPLICAS, image="i:0", namespace="default")
            await c.client.for_kind(Deployment).create(new)
        for _ in range(ROUNDS):
            async with c.running(*NAMES):
                for _ in range(random.randrange(4)):
                    await disturb(c, random)
                    for _ in range(random.randrange(60)):
                        await asyncio.sleep(0)
        async with c.running(*NAMES):
            for at in range(COUNT):
                await c.client.for_kind(Deployment).patch(f"d{at}", {"spec": {"replicas": REPLICAS}}, "default")
            await c.clock.settle()
            await settle_pods(c)
            await c.clock.advance(1)
            await settle_pods(c)
            await check(c)
        await check_second_run_writes_nothing(c, *NAMES)


async def test_deployments_with_the_same_selector_do_not_interfere() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        for name in ("one", "two"):
            new = builders.deployment("same", replicas=REPLICAS, namespace="default")
            new.metadata.name = name
            await c.client.for_kind(Deployment).create(new)
        await c.clock.settle()
        await settle_pods(c)
        assert len((await c.client.for_kind(Pod).list_all()).items) == 2 * REPLICAS
        for deployment in (await c.client.for_kind(Deployment).list_all()).items:
            assert (deployment.status.readyReplicas, deployment.status.replicas) == (REPLICAS, REPLICAS)
        await c.client.for_kind(Deployment).patch("one", {"spec": {"replicas": 1}}, "default")
        await c.clock.settle()
        await settle_pods(c)
        assert (await c.client.for_kind(Deployment).get("one", "default")).status.replicas == 1
        assert (await c.client.for_kind(Deployment).get("two", "default")).status.replicas == REPLICAS
