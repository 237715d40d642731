"""The garbage collection of dependents costs at most one second of CPU time."""

import time

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import ConfigMap, Pod
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.machinery.client import Client, DeleteParameters, Selection
from sampan.testing import Cluster, builders
from tests.eventually import eventually
from tests.input_cost import is_cpu_time_within

LIMIT_S = 1.0
DEPENDENTS, REPLICAS = 100, 10
BACKGROUND = DeleteParameters(propagation="Background")


async def _create_owner_with_dependents(client: Client, namespace: str) -> None:
    maps = client.for_kind(ConfigMap)
    owner = await maps.create(ConfigMap(metadata=ObjectMeta(name="owner", namespace=namespace)))
    ref = OwnerReference(apiVersion="v1", kind="ConfigMap", name="owner", uid=owner.metadata.uid)
    for at in range(DEPENDENTS):
        await maps.create(ConfigMap(metadata=ObjectMeta(name=f"m{at}", namespace=namespace, ownerReferences=[ref])))


async def _deletion_cpu_s(client: Client, namespace: str, owner: tuple[type, str], *kinds: type) -> float:
    """Delete the owner, wait until no objects of these kinds are left, and return the CPU time."""
    began = time.process_time()
    await client.for_kind(owner[0]).delete(owner[1], namespace, options=BACKGROUND)

    async def is_empty() -> bool:
        objects = [
            obj for kind in kinds for obj in (await client.for_kind(kind).list(Selection(namespace=namespace))).items
        ]
        return not [obj for obj in objects if obj.metadata.name != "kube-root-ca.crt"]

    await eventually(is_empty, poll_s=0.02)
    return time.process_time() - began


def test_background_deletion_of_100_dependents_within_one_cpu_second() -> None:
    with Cluster(components=("apiserver", "controllers"), store="sqlite") as cluster, cluster.namespace() as namespace:
        cluster.run(_create_owner_with_dependents(cluster.client, namespace))
        took_s = cluster.run(_deletion_cpu_s(cluster.client, namespace, (ConfigMap, "owner"), ConfigMap))
    assert is_cpu_time_within(took_s, LIMIT_S)


async def _create_ready_deployment(client: Client, namespace: str) -> None:
    deployment = builders.deployment("web", replicas=REPLICAS, namespace=namespace)
    deployment.spec.template.spec.terminationGracePeriodSeconds = 0
    await client.for_kind(Deployment).create(deployment)

    async def is_ready() -> bool:
        return (await client.for_kind(Deployment).get("web", namespace)).status.readyReplicas == REPLICAS

    await eventually(is_ready, poll_s=0.05)


def test_background_deletion_of_a_deployment_within_one_cpu_second() -> None:
    with Cluster(nodes=2) as cluster, cluster.namespace() as namespace:
        cluster.run(_create_ready_deployment(cluster.client, namespace), timeout_s=60)
        took_s = cluster.run(_deletion_cpu_s(cluster.client, namespace, (Deployment, "web"), ReplicaSet, Pod))
    assert is_cpu_time_within(took_s, LIMIT_S)
