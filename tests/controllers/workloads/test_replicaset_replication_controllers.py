"""replicationcontroller-controller, with the real API server."""

from sampan.api.codec import json as codec
from sampan.api.semantics.owners import controller_of
from sampan.api.types.core_v1 import Event, Pod, ReplicationController
from sampan.controllers.workloads.replicaset import ReplicationControllerController
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, names_of
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.scheduler_and_kubelet import active_of, pods_of, settle_pods

NAME = ReplicationControllerController.name


async def create(c: Cluster, replicas: int) -> ReplicationController:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    value = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": replicas, "template": template}}
    return await c.client.for_kind(ReplicationController).create(codec.from_value(value, ReplicationController))


async def get(c: Cluster) -> ReplicationController:
    await c.clock.settle()
    return await c.client.for_kind(ReplicationController).get("web", "default")


async def test_pods_are_created_released_and_scaled_down() -> None:
    async with pod_cluster() as c:
        async with c.running(NAME):
            controller = await create(c, 3)
            await settle_pods(c)
            status = (await get(c)).status
            assert (status.replicas, status.fullyLabeledReplicas, status.readyReplicas) == (3, 3, 3)
            assert (status.availableReplicas, status.observedGeneration) == (3, 1)
            first = (await pods_of(c))[0]
            reference = controller_of(first)
            assert reference is not None
            assert (reference.kind, reference.apiVersion) == ("ReplicationController", "v1")
            assert reference.uid == controller.metadata.uid
            events = (await c.client.for_kind(Event).list_all()).items
            assert {event.source.component for event in events} == {"replication-controller"}

            name = first.metadata.name
            await c.client.for_kind(Pod).patch(name, {"metadata": {"labels": {"app": "x"}}}, "default")
            await c.clock.settle()
            assert controller_of(await c.client.for_kind(Pod).get(name, "default")) is None
            assert len(await active_of(c, "app=web")) == 3
            await settle_pods(c)

            await c.client.for_kind(ReplicationController).patch("web", {"spec": {"replicas": 0}}, "default")
            assert await active_of(c, "app=web") == []
            assert names_of(await active_of(c)) == [name]
            await settle_pods(c)
            assert (await get(c)).status.replicas == 0
        await check_second_run_writes_nothing(c, NAME)
