"""service-lb-controller, with a fake cloud provider."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Service
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.services.load_balancers import FINALIZER, changes, is_host, wants_load_balancer
from sampan.machinery import errors
from sampan.machinery.client import PatchType
from sampan.testing.cloud import MemoryCloud, MemoryLoadBalancer
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.nodes.fleet import Fleet, node_value
from tests.controllers.services.backends import Backends, service

NAME = "service-lb-controller"


def test_wants_load_balancer_by_type_and_class() -> None:
    assert wants_load_balancer(service(type="LoadBalancer"))
    assert not wants_load_balancer(service(type="NodePort"))
    assert not wants_load_balancer(service(type="LoadBalancer", loadBalancerClass="example.com/other"))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (node_value("n"), True),
        (node_value("n", labels={"node.kubernetes.io/exclude-from-external-load-balancers": ""}), False),
        (node_value("n", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]), False),
        (node_value("n", unschedulable=True), True),
    ],
)
def test_nodes_eligible_as_load_balancer_hosts(node: dict[str, object], expected: bool) -> None:
    assert is_host(codec.from_value(node, Node)) is expected


def test_changes_of_type_and_source_ranges_are_reported() -> None:
    old = service(type="ClusterIP")
    new = service(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8", "11.0.0.0/8"])
    assert list(changes(old, new)) == [
        ("Type", "ClusterIP -> LoadBalancer"),
        ("LoadBalancerSourceRanges", "[] -> [10.0.0.0/8 11.0.0.0/8]"),
    ]
    assert list(changes(old, service(type="NodePort"))) == []


async def only_balancer(c: Cluster, cloud: MemoryCloud) -> MemoryLoadBalancer:
    await c.clock.settle()
    (balancer,) = cloud.balancers.values()
    return balancer


async def test_load_balancer_is_created_updated_and_deleted_with_finalizer() -> None:
    cloud = MemoryCloud()
    config = ControllerConfig(cloud=cloud)
    async with cluster() as c:
        services, backends = c.client.for_kind(Service), Backends(c)
        await backends.add("a")
        async with c.running(NAME, config=config):
            await backends.serve(type="LoadBalancer")
            balancer = await only_balancer(c, cloud)
            service = await services.get("web", "default")
            assert service.metadata.finalizers == [FINALIZER]
            assert [ingress.ip for ingress in service.status.loadBalancer.ingress] == [balancer.ip]
            assert (balancer.nodes, [port for port, _ in balancer.ports]) == (["a"], [80])
            events = [(reason, message) for _, reason, message in await backends.events()]
            assert ("EnsuringLoadBalancer", "Ensuring load balancer") in events
            assert ("EnsuredLoadBalancer", "Ensured load balancer") in events

            await backends.add("b")
            assert (await only_balancer(c, cloud)).nodes == ["a", "b"]
            assert cloud.calls["load_balancers.ensure"] == 1, "only the nodes changed"
            assert await backends.events("UpdatedLoadBalancer") == [
                ("web", "UpdatedLoadBalancer", "Updated load balancer with new hosts")
            ]
            await backends.post("a", "False")
            await c.clock.settle()
            assert (await only_balancer(c, cloud)).nodes == ["a", "b"], (
                "the health checks of the load balancer exclude the node"
            )
            ports = [{"name": "http", "port": 81, "targetPort": 8080}]
            await services.patch("web", {"spec": {"ports": ports}}, "default", type=PatchType.MERGE)
            assert [port for port, _ in (await only_balancer(c, cloud)).ports] == [81]
            assert cloud.calls["load_balancers.ensure"] == 2

        before = await c.revision()
        async with c.running(NAME, config=config):
            await c.clock.advance(60)
        assert await c.revision() == before

        async with c.running(NAME, config=config):
            cloud.failing["load_balancers.delete"] = "busy"
            await services.delete("web", "default")
            await c.clock.settle()
            assert (await services.get("web", "default")).metadata.deletionTimestamp is not None
            assert (
                "web",
                "SyncLoadBalancerFailed",
                "Error syncing load balancer: failed to delete load balancer: busy",
            ) in (await backends.events("SyncLoadBalancerFailed"))
            cloud.failing.clear()
            await c.clock.advance(30)
            with pytest.raises(errors.NotFound):
                await services.get("web", "default")
            assert cloud.balancers == {}
            assert await backends.events("DeletedLoadBalancer") == [
                ("web", "DeletedLoadBalancer", "Deleted load balancer")
            ]


async def test_load_balancer_is_deleted_when_the_service_type_changes() -> None:
    cloud = MemoryCloud()
    async with cluster() as c, c.running(NAME, config=ControllerConfig(cloud=cloud)):
        services, fleet = c.client.for_kind(Service), Backends(c)
        await fleet.serve(type="LoadBalancer")
        assert (await only_balancer(c, cloud)).nodes == []
        assert await Fleet(c).events("UnAvailableLoadBalancer") == [
            ("web", "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
        ]
        await services.patch("web", {"spec": {"type": "ClusterIP"}}, "default")
        await c.clock.settle()
        assert cloud.balancers == {}
        service = await services.get("web", "default")
        assert (service.metadata.finalizers, service.status.loadBalancer.ingress) == ([], [])
        assert ("web", "Type", "LoadBalancer -> ClusterIP") in await fleet.events("Type")


async def test_cloud_provider_failure_is_reported_and_retried() -> None:
    cloud = MemoryCloud()
    cloud.failing["load_balancers.ensure"] = "quota"
    async with cluster() as c, c.running(NAME, config=ControllerConfig(cloud=cloud)):
        fleet = Backends(c)
        await fleet.serve(type="LoadBalancer")
        assert await fleet.events("SyncLoadBalancerFailed") == [
            (
                "web",
                "SyncLoadBalancerFailed",
                "Error syncing load balancer: failed to ensure load balancer: quota",
            )
        ]
        cloud.failing.clear()
        await c.clock.advance(10)
        assert len(cloud.balancers) == 1
