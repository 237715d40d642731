"""Conformance tests of sig-apps for ReplicaSet. The first paragraph of a docstring is the official test name."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import ReplicaSet, ReplicaSetCondition
from sampan.api.types.core_v1 import Pod
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters, PatchType, Selection
from sampan.machinery.copies import copy_of
from tests.e2e.conformance.apps.replica_cluster import (
    IMAGE,
    OTHER_IMAGE,
    ReplicaCluster,
    condition,
    is_running,
    replica_set,
    run_scenario,
    template,
)

LABELS = {"name": "sample-pod", "pod": "httpd"}


def test_replace_and_patch() -> None:
    """[sig-apps] ReplicaSet Replace and Patch tests"""

    async def scenario(c: ReplicaCluster) -> None:
        sets = c.for_kind(ReplicaSet)
        await c.create(replica_set("test-rs", 1, template(LABELS, OTHER_IMAGE)))
        assert [is_running(pod) for pod in await c.pods()] == [True]
        scaled = copy_of(await c.get(ReplicaSet, "test-rs"))
        scaled.spec.replicas = 2
        await sets.update(scaled)
        await c.clock.advance(2)
        assert (await c.get(ReplicaSet, "test-rs")).status.availableReplicas == 2

        pods = {"spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": IMAGE}]}}
        patch = {"metadata": {"labels": {"test-rs": "patched"}}, "spec": {"replicas": 3, "template": pods}}
        await sets.patch("test-rs", patch, "default")
        await c.clock.advance(2)
        stored_replica_set = await c.get(ReplicaSet, "test-rs")
        assert stored_replica_set.metadata.labels["test-rs"] == "patched"
        assert (stored_replica_set.spec.replicas, stored_replica_set.status.readyReplicas) == (3, 3)
        assert stored_replica_set.spec.template.spec.containers[0].image == IMAGE
        images = sorted(container.image for pod in await c.pods() for container in pod.spec.containers or ())
        assert images == [OTHER_IMAGE, OTHER_IMAGE, IMAGE]

    run_scenario(scenario)


def test_scale() -> None:
    """[sig-apps] ReplicaSet Replicaset should have a working scale subresource"""

    async def scenario(c: ReplicaCluster) -> None:
        sets = c.for_kind(ReplicaSet)
        await c.create(replica_set("test-rs", 1, template(LABELS)))
        scale = await sets.get_subresource("scale", "test-rs", "default")
        assert (scale.spec.replicas, scale.status.replicas) == (1, 1)
        changed = copy_of(scale)
        changed.metadata.resourceVersion, changed.spec.replicas = "", 2
        assert (await sets.update_subresource("scale", "test-rs", changed, "default")).spec.replicas == 2
        assert (await c.get(ReplicaSet, "test-rs")).spec.replicas == 2
        patch = {"spec": {"replicas": 4}}
        await sets.patch("test-rs", patch, "default", type=PatchType.MERGE, subresource="scale")
        await c.clock.advance(2)
        stored_replica_set = await c.get(ReplicaSet, "test-rs")
        assert (stored_replica_set.spec.replicas, stored_replica_set.status.readyReplicas) == (4, 4)

    run_scenario(scenario)


def test_adopts_and_releases() -> None:
    """[sig-apps] ReplicaSet should adopt matching pods on creation and release no longer matching pods"""

    async def scenario(c: ReplicaCluster) -> None:
        labels = {"name": "pod-adoption-release"}
        pods = template(labels)
        value = {"metadata": {"name": "pod-adoption-release", "labels": labels}, "spec": pods["spec"]}
        await c.create(codec.from_value(value, Pod))
        created = await c.create(replica_set("pod-adoption-release", 1, pods))
        (pod,) = await c.pods()
        assert [reference.uid for reference in pod.metadata.ownerReferences] == [created.metadata.uid]

        patch = {"metadata": {"labels": {"name": "not-matching"}}}
        await c.for_kind(Pod).patch(pod.metadata.name, patch, "default")
        await c.clock.advance(1)
        assert (await c.get(Pod, pod.metadata.name)).metadata.ownerReferences == []
        assert len(await c.pods("name=pod-adoption-release")) == 1

    run_scenario(scenario)


def test_list_and_delete_a_collection() -> None:
    """[sig-apps] ReplicaSet should list and delete a collection of ReplicaSets"""

    async def scenario(c: ReplicaCluster) -> None:
        labels = {"name": "e2e", "e2e": "replicaset"}
        chosen = Selection(namespace="default", labels="e2e=replicaset")
        await c.create(replica_set("test-rs", 3, template(labels)))
        assert (await c.get(ReplicaSet, "test-rs")).status.readyReplicas == 3
        assert len((await c.for_kind(ReplicaSet).list(chosen)).items) == 1
        await c.for_kind(ReplicaSet).delete_collection(chosen, options=DeleteParameters(propagation="Background"))
        await c.clock.advance(2)
        assert (await c.for_kind(ReplicaSet).list(chosen)).items == []
        assert await c.pods() == []

    run_scenario(scenario)


def test_serves_a_basic_image() -> None:
    """[sig-apps] ReplicaSet should serve a basic image on each replica with a public image

    Hollow pods run the image in name only: what is asked of them is that they run, each on a node, with an address.
    """

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(replica_set("my-hostname-basic", 2, template({"name": "basic"})))
        pods = await c.pods("name=basic")
        assert [is_running(pod) for pod in pods] == [True, True]
        assert len({pod.status.podIP for pod in pods}) == 2

    run_scenario(scenario)


def test_status_endpoints() -> None:
    """[sig-apps] ReplicaSet should validate Replicaset Status endpoints"""

    async def scenario(c: ReplicaCluster) -> None:
        sets = c.for_kind(ReplicaSet)
        await c.create(replica_set("test-rs", 1, template(LABELS)))
        patched = await sets.get("test-rs", "default")
        assert patched.status.replicas == 1
        changed = copy_of(patched)
        changed.status.conditions = [
            ReplicaSetCondition(type="StatusUpdate", status="True", reason="E2E", message="Set from e2e test")
        ]
        assert condition(await sets.update_status(changed), "StatusUpdate").reason == "E2E"
        assert condition(await c.get(ReplicaSet, "test-rs"), "StatusUpdate").message == "Set from e2e test"
        patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        await sets.patch("test-rs", patch, "default", type=PatchType.MERGE, subresource="status")
        assert condition(await c.get(ReplicaSet, "test-rs"), "StatusPatched").status == "True"
        await sets.delete("test-rs", "default")
        with pytest.raises(errors.NotFound):
            await sets.get("test-rs", "default")

    run_scenario(scenario)
