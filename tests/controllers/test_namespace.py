"""namespace-controller against a whole API server."""

from typing import Any

import pytest

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import (
    ConfigMap,
    Container,
    Namespace,
    NamespaceSpec,
    Pod,
    PodSpec,
    Secret,
    ServiceAccount,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.namespace import NamespaceController
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, PatchType, Selection, resource_of
from tests.calls import check_growth, counted_calls
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster

NAME = NamespaceController.name
HELD = "example.com/hold"


async def make_namespace(c: Cluster, name: str = "n", **spec: Any) -> Namespace:
    return await c.client.for_kind(Namespace).create(
        Namespace(metadata=ObjectMeta(name=name), spec=NamespaceSpec(**spec))
    )


def config_map(name: str, *finalizers: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="n", finalizers=list(finalizers)))


def running_pod() -> Pod:
    """A pod on a node, so that its deletion has a grace period of 30 s."""
    spec = PodSpec(nodeName="node", containers=[Container(name="c", image="i")], terminationGracePeriodSeconds=30)
    return Pod(metadata=ObjectMeta(name="p", namespace="n"), spec=spec)


async def is_gone(client: Client, name: str = "n") -> bool:
    try:
        await client.for_kind(Namespace).get(name)
    except errors.NotFound:
        return True
    return False


def true_conditions(namespace: Namespace) -> dict[str, str]:
    """The messages of the conditions that are true, by type."""
    return {
        condition.type: condition.message for condition in namespace.status.conditions if condition.status == "True"
    }


async def test_namespace_is_deleted_with_only_its_own_content() -> None:
    async with cluster() as c:
        client = c.client
        await make_namespace(c)
        await make_namespace(c, "other")
        for namespace in ("n", "other"):
            for kind in (ConfigMap, Secret, ServiceAccount):
                obj = kind(metadata=ObjectMeta(name="x", namespace=namespace))
                await client.resource(resource_of(kind)).create(obj)
        async with c.running(NAME):
            await client.for_kind(Namespace).delete("n")
            await c.clock.settle()
            assert await is_gone(client)
            for kind in (ConfigMap, Secret, ServiceAccount):
                objects = (await client.for_kind(kind).list(Selection(fields="metadata.name=x"))).items
                assert [obj.metadata.namespace for obj in objects] == ["other"]
            await make_namespace(c)
        await check_second_run_writes_nothing(c, NAME)


async def test_finalizers_of_content_are_awaited_and_reported() -> None:
    async with cluster() as c:
        client = c.client
        await make_namespace(c)
        await client.for_kind(ConfigMap).create(config_map("keep", HELD))
        await client.for_kind(Secret).create(Secret(metadata=ObjectMeta(name="go", namespace="n")))
        async with c.running(NAME):
            await client.for_kind(Namespace).delete("n")
            await c.clock.settle()
            namespace = await client.for_kind(Namespace).get("n")
            assert true_conditions(namespace) == {
                "NamespaceContentRemaining": "Some resources are remaining: configmaps. has 1 resource instances",
                "NamespaceFinalizersRemaining": (
                    "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
                ),
            }
            assert (await client.for_kind(Secret).list(Selection(namespace="n"))).items == []
            revision = await c.revision()
            await c.clock.advance(60)
            assert await c.revision() == revision, "a retry writes nothing"
        await check_second_run_writes_nothing(c, NAME)
        async with c.running(NAME):
            patch = {"metadata": {"finalizers": None}}
            await client.for_kind(ConfigMap).patch("keep", patch, "n", type=PatchType.MERGE)
            await c.clock.advance(8.6)
            assert await is_gone(client)


async def test_pods_are_deleted_before_other_content() -> None:
    async with cluster() as c:
        client = c.client
        await make_namespace(c)
        await client.for_kind(ServiceAccount).create(ServiceAccount(metadata=ObjectMeta(name="default", namespace="n")))
        await client.for_kind(ConfigMap).create(config_map("needed"))
        await client.for_kind(Pod).create(running_pod())
        async with c.running(NAME):
            await client.for_kind(Namespace).delete("n")
            await c.clock.advance(10)
            assert (await client.for_kind(Pod).get("p", "n")).metadata.deletionTimestamp is not None
            assert (await client.for_kind(ConfigMap).get("needed", "n")).metadata.deletionTimestamp is None
            namespace = await client.for_kind(Namespace).get("n")
            assert true_conditions(namespace) == {
                "NamespaceContentRemaining": "Some resources are remaining: pods. has 1 resource instances"
            }
            await client.for_kind(Pod).delete("p", "n", options=DeleteParameters(grace_period_s=0))
            await c.clock.advance(5)
            assert await is_gone(client)


async def test_a_pod_that_overstays_its_grace_period_is_reported() -> None:
    async with cluster() as c:
        client = c.client
        await make_namespace(c)
        await client.for_kind(ServiceAccount).create(ServiceAccount(metadata=ObjectMeta(name="default", namespace="n")))
        await client.for_kind(Pod).create(running_pod())
        async with c.running(NAME):
            await client.for_kind(Namespace).delete("n")
            await c.clock.advance(60)
            conditions = true_conditions(await client.for_kind(Namespace).get("n"))
            assert conditions["NamespaceDeletionContentFailure"] == (
                "Failed to delete all resource types, 1 remaining: "
                "unexpected items still remain in namespace: n for gvr: /v1, Resource=pods"
            )


async def test_other_finalizers_of_the_namespace_are_kept() -> None:
    async with cluster() as c:
        client = c.client
        await make_namespace(c, finalizers=["example.com/mine", "kubernetes"])
        async with c.running(NAME):
            await client.for_kind(Namespace).delete("n")
            await c.clock.advance(60)
            namespace = await client.for_kind(Namespace).get("n")
            assert namespace.spec.finalizers == ["example.com/mine"]
            assert true_conditions(namespace) == {}
            assert len(namespace.status.conditions) == 5
            before = await c.revision()
            await c.clock.advance(600)
            assert await c.revision() == before


async def test_namespace_settle_period_delays_the_deletion() -> None:
    async with cluster() as c:
        await make_namespace(c)
        async with c.running(NAME, config=ControllerConfig(namespace_settle_s=5)):
            await c.client.for_kind(Namespace).delete("n")
            await c.clock.advance(4.9)
            assert not await is_gone(c.client)
            await c.clock.advance(0.2)
            assert await is_gone(c.client)


async def test_discovery_failure_blocks_the_deletion_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster() as c:
        await make_namespace(c)
        async with c.running(NAME) as manager:
            (runner,) = manager.runners
            controller: Any = runner.controller
            discover = controller._discover

            async def fail() -> tuple[list[Any], str]:
                return (await discover())[0], "metrics.example.com/v1: no answer"

            controller._discover = fail
            await c.client.for_kind(Namespace).delete("n")
            await c.clock.settle()
            namespace = await c.client.for_kind(Namespace).get("n")
            assert true_conditions(namespace) == {
                "NamespaceDeletionDiscoveryFailure": "metrics.example.com/v1: no answer"
            }
            controller._discover = discover
            await c.clock.advance(60)
            assert await is_gone(c.client)


async def count_calls_of_deletion(objects_per_kind: int) -> int:
    """Return how many functions are called to delete a namespace with this many objects of each of 20 kinds."""
    async with cluster() as c:
        client = c.client
        await make_namespace(c)
        created, kinds = 0, set[str]()
        for row in c.server.scheme:
            if row.namespaced and "deletecollection" in row.verbs and row.storage == row.gvk and len(kinds) < 20:
                kinds.add(row.storage_prefix)
                created += await _fill(c, row, objects_per_kind)
        assert (len(kinds), created) == (20, 20 * objects_per_kind)
        async with c.running(NAME):
            with counted_calls() as count:
                await client.for_kind(Namespace).delete("n")
                await c.clock.settle()
            assert await is_gone(client)
        return count.calls


async def test_deletion_of_a_namespace_costs_no_more_than_n_log_n() -> None:
    check_growth(await count_calls_of_deletion(24), await count_calls_of_deletion(6))


async def _fill(c: Cluster, row: Resource, count: int) -> int:
    """Write minimal objects directly to the store, because validation would reject them."""
    title = b'{"kind":"%b","apiVersion":"%b",' % (row.kind.encode(), row.api_version.encode())
    for number in range(count):
        raw = title + b'"metadata":{"name":"x%d","namespace":"n","uid":"u"}}' % number
        await c.backend.put(f"{row.storage_prefix}/n/x{number}", raw)
    return count
