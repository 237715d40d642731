"""Conformance tests of sig-api-machinery for namespaces. The docstring is the official test name."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import ConfigMap, Namespace, NamespaceCondition, Pod, Service, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.client import PatchType, Selection
from sampan.machinery.copies import copy_of
from sampan.machinery.errors import NotFound
from tests.e2e.conformance.apps.replica_cluster import ReplicaCluster, run_scenario, template

NAME = "nsdeletetest"
HERE = Selection(namespace=NAME)


async def make(c: ReplicaCluster, name: str = NAME) -> Namespace:
    namespace: Namespace = await c.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name=name)))
    await c.clock.settle()
    assert (await c.for_kind(ServiceAccount).get("default", name)).metadata.name == "default"
    return namespace


async def read(c: ReplicaCluster) -> Namespace:
    await c.clock.settle()
    namespace: Namespace = await c.for_kind(Namespace).get(NAME)
    return namespace


def test_deleting_a_namespace_deletes_its_pods() -> None:
    """[sig-api-machinery] Namespaces should ensure that all pods are removed when a namespace is deleted"""

    async def scenario(c: ReplicaCluster) -> None:
        await make(c)
        value = {"metadata": {"name": "test-pod", "namespace": NAME}, "spec": template({})["spec"]}
        await c.for_kind(Pod).create(codec.from_value(value, Pod))
        await c.clock.advance(5)
        assert (await c.for_kind(Pod).get("test-pod", NAME)).status.phase == "Running"
        await c.for_kind(Namespace).delete(NAME)
        await c.clock.advance(30)
        with pytest.raises(NotFound):
            await read(c)
        await make(c)
        assert (await c.for_kind(Pod).list(HERE)).items == []

    run_scenario(scenario)


def test_deleting_a_namespace_deletes_its_services() -> None:
    """[sig-api-machinery] Namespaces should ensure that all services are removed when a namespace is deleted"""

    async def scenario(c: ReplicaCluster) -> None:
        await make(c)
        value = {"metadata": {"name": "test-service", "namespace": NAME}, "spec": {"ports": [{"port": 80}]}}
        await c.for_kind(Service).create(codec.from_value(value, Service))
        await c.for_kind(Namespace).delete(NAME)
        await c.clock.advance(30)
        with pytest.raises(NotFound):
            await read(c)
        await make(c)
        assert (await c.for_kind(Service).list(HERE)).items == []

    run_scenario(scenario)


def test_patch() -> None:
    """[sig-api-machinery] Namespaces should patch a Namespace"""

    async def scenario(c: ReplicaCluster) -> None:
        await make(c)
        await c.for_kind(Namespace).patch(NAME, {"metadata": {"labels": {"testLabel": "testValue"}}})
        assert (await read(c)).metadata.labels["testLabel"] == "testValue"

    run_scenario(scenario)


def test_update() -> None:
    """[sig-api-machinery] Namespaces should apply an update to a Namespace"""

    async def scenario(c: ReplicaCluster) -> None:
        await make(c)
        changed = copy_of(await read(c))
        changed.metadata.labels["updated"] = "yes"
        await c.for_kind(Namespace).update(changed)
        assert (await read(c)).metadata.labels["updated"] == "yes"

    run_scenario(scenario)


def test_status() -> None:
    """[sig-api-machinery] Namespaces should apply changes to a namespace status"""

    async def scenario(c: ReplicaCluster) -> None:
        await make(c)
        assert (await read(c)).status.phase == "Active"
        condition = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "Patched by an e2e test"}
        patch = {"status": {"conditions": [condition]}}
        await c.for_kind(Namespace).patch(NAME, patch, type=PatchType.MERGE, subresource="status")
        changed = copy_of(await read(c))
        assert [condition.type for condition in changed.status.conditions] == ["StatusPatch"]
        changed.status.conditions.append(NamespaceCondition(type="StatusUpdate", status="True", reason="E2E"))
        await c.for_kind(Namespace).update_status(changed)
        assert [condition.type for condition in (await read(c)).status.conditions] == ["StatusPatch", "StatusUpdate"]

    run_scenario(scenario)


def test_finalizer() -> None:
    """[sig-api-machinery] Namespaces should apply a finalizer to a Namespace"""

    async def scenario(c: ReplicaCluster) -> None:
        await make(c)
        mine = "e2e.example.com/fakeFinalizer"
        changed = copy_of(await read(c))
        changed.spec.finalizers.append(mine)
        await c.for_kind(Namespace).update(changed, subresource="finalize")
        changed = copy_of(await read(c))
        assert mine in changed.spec.finalizers
        changed.spec.finalizers.remove(mine)
        await c.for_kind(Namespace).update(changed, subresource="finalize")
        assert mine not in (await read(c)).spec.finalizers

    run_scenario(scenario)


def test_pods_are_deleted_before_other_objects() -> None:
    """[sig-api-machinery] OrderedNamespaceDeletion namespace deletion should delete pod first"""

    async def scenario(c: ReplicaCluster) -> None:
        await make(c)
        meta = {"name": "test-pod", "namespace": NAME, "finalizers": ["e2e.example.com/finalizer"]}
        await c.for_kind(Pod).create(codec.from_value({"metadata": meta, "spec": template({})["spec"]}, Pod))
        value = {"metadata": {"name": "test-configmap", "namespace": NAME}, "data": {"key": "value"}}
        await c.for_kind(ConfigMap).create(codec.from_value(value, ConfigMap))
        await c.clock.advance(5)
        assert (await c.for_kind(Pod).get("test-pod", NAME)).status.phase == "Running"
        await c.for_kind(Namespace).delete(NAME)
        await c.clock.advance(300)
        namespace = await read(c)
        assert namespace.status.phase == "Terminating"
        conditions = {condition.type: condition for condition in namespace.status.conditions}
        assert conditions["NamespaceDeletionContentFailure"]
        assert conditions["NamespaceFinalizersRemaining"].status == "True"
        assert "e2e.example.com/finalizer in 1 resource instances" in conditions["NamespaceFinalizersRemaining"].message
        assert (await c.for_kind(Pod).get("test-pod", NAME)).metadata.deletionTimestamp is not None
        assert (await c.for_kind(ConfigMap).get("test-configmap", NAME)).metadata.deletionTimestamp is None
        await c.for_kind(Pod).patch("test-pod", {"metadata": {"finalizers": None}}, NAME, type=PatchType.MERGE)
        await c.clock.advance(300)
        with pytest.raises(NotFound):
            await read(c)
        with pytest.raises(NotFound):
            await c.for_kind(ConfigMap).get("test-configmap", NAME)

    run_scenario(scenario)
