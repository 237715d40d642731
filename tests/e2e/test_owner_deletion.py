"""What an owner leaves behind goes after it, at a cost of at most a second of processor time."""

import asyncio
import time

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import ConfigMap, Pod
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.machinery.client import Client, Delete, Selection
from sampan.testing import Cluster, builders

LIMIT_S = 1.0
DEPENDENTS, REPLICAS = 100, 10
BACKGROUND = Delete(propagation="Background")


async def _with_dependents(client: Client, namespace: str) -> None:
    maps = client.of(ConfigMap)
    owner = await maps.create(ConfigMap(metadata=ObjectMeta(name="owner", namespace=namespace)))
    ref = OwnerReference(apiVersion="v1", kind="ConfigMap", name="owner", uid=owner.metadata.uid)
    for at in range(DEPENDENTS):
        await maps.create(ConfigMap(metadata=ObjectMeta(name=f"m{at}", namespace=namespace, ownerReferences=[ref])))


async def _emptied_cost_s(client: Client, namespace: str, owner: tuple[type, str], *kinds: type) -> float:
    """What it costs until nothing of these kinds is left but what every namespace has."""
    began = time.process_time()
    await client.of(owner[0]).delete(owner[1], namespace, options=BACKGROUND)
    while True:
        found = [obj for kind in kinds for obj in (await client.of(kind).list(Selection(namespace=namespace))).items]
        if not [obj for obj in found if obj.metadata.name != "kube-root-ca.crt"]:
            return time.process_time() - began
        await asyncio.sleep(0.02)


def test_a_hundred_dependents() -> None:
    with Cluster(components=("apiserver", "controllers"), store="sqlite") as cluster, cluster.namespace() as namespace:
        cluster.run(_with_dependents(cluster.client, namespace))
        took_s = cluster.run(_emptied_cost_s(cluster.client, namespace, (ConfigMap, "owner"), ConfigMap))
    assert took_s < LIMIT_S


async def _running(client: Client, namespace: str) -> None:
    made = builders.deployment("web", replicas=REPLICAS, namespace=namespace)
    made.spec.template.spec.terminationGracePeriodSeconds = 0
    await client.of(Deployment).create(made)
    async with asyncio.timeout(60):
        while True:
            found = await client.of(Deployment).get("web", namespace)
            if found.status.readyReplicas == REPLICAS:
                return
            await asyncio.sleep(0.05)


def test_a_deployment_with_its_sets_and_pods() -> None:
    with Cluster(nodes=2) as cluster, cluster.namespace() as namespace:
        cluster.run(_running(cluster.client, namespace), timeout_s=60)
        took_s = cluster.run(_emptied_cost_s(cluster.client, namespace, (Deployment, "web"), ReplicaSet, Pod))
    assert took_s < LIMIT_S
