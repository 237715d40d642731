"""Deployments in a cluster: created, changed and read."""

from collections.abc import Sequence
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.semantics.conditions import find_condition
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.controllers.workloads.deployment.replicasets import REVISION
from tests.controllers.cluster import Cluster
from tests.controllers.workloads.deployment.objects import LABELS, template


async def create(c: Cluster, replicas: int = 3, **spec: Any) -> Deployment:
    value = {
        "metadata": {"name": "web", "namespace": "default", "annotations": {"kubernetes.io/change-cause": "first"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(), **spec},
    }
    return await c.client.for_kind(Deployment).create(codec.from_value(value, Deployment))


async def get(c: Cluster) -> Deployment:
    await c.clock.settle()
    return await c.client.for_kind(Deployment).get("web", "default")


async def patch(c: Cluster, **spec: Any) -> None:
    await c.client.for_kind(Deployment).patch("web", {"spec": spec}, "default")


async def set_image(c: Cluster, image: str) -> None:
    await patch(c, template={"spec": {"containers": [{"name": "c", "image": image}]}})


async def sets(c: Cluster) -> Sequence[ReplicaSet]:
    """The ReplicaSets, the oldest revision first."""
    await c.clock.settle()
    replica_sets = (await c.client.for_kind(ReplicaSet).list_all()).items
    return sorted(replica_sets, key=lambda rs: int(rs.metadata.annotations.get(REVISION, "0")))


async def sizes(c: Cluster) -> list[int | None]:
    return [rs.spec.replicas for rs in await sets(c)]


async def reason(c: Cluster, type: str = "Progressing") -> str:
    condition = find_condition((await get(c)).status.conditions, type)
    return condition.reason if condition else ""
