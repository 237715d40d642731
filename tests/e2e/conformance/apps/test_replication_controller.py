"""Conformance tests of sig-apps for ReplicationController. The first paragraph of a docstring is the official test
name."""

from sampan.api.codec import json as codec
from sampan.api.types.autoscaling_v1 import Scale
from sampan.api.types.core_v1 import Pod, ReplicationController, ResourceQuota
from sampan.machinery.client import ADDED, DELETED, DeleteParameters, PatchType, Selection
from sampan.machinery.copies import copy_of
from tests.e2e.conformance.apps.replica_cluster import (
    ReplicaCluster,
    condition,
    is_running,
    replication_controller,
    run_scenario,
    template,
)

LABELS = {"name": "rc"}


def test_adopts_matching_pods() -> None:
    """[sig-apps] ReplicationController should adopt matching pods on creation"""

    async def scenario(c: ReplicaCluster) -> None:
        pods = template({"name": "pod-adoption"})
        pod = codec.from_value(
            {"metadata": {"name": "pod-adoption", "labels": {"name": "pod-adoption"}}, "spec": pods["spec"]}, Pod
        )
        await c.create(pod)
        created = await c.create(replication_controller("pod-adoption", 1, pods))
        (adopted,) = await c.pods("name=pod-adoption")
        assert adopted.metadata.name == "pod-adoption"
        assert [(reference.uid, reference.controller) for reference in adopted.metadata.ownerReferences] == [
            (created.metadata.uid, True)
        ]

    run_scenario(scenario)


def test_scale() -> None:
    """[sig-apps] ReplicationController should get and update a ReplicationController scale"""

    async def scenario(c: ReplicaCluster) -> None:
        controllers = c.for_kind(ReplicationController)
        await c.create(replication_controller("e2e-rc", 1, template(LABELS)))
        scale: Scale = await controllers.get_subresource("scale", "e2e-rc", "default")
        assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (1, 1, "name=rc")
        changed = copy_of(scale)
        changed.spec.replicas = 2
        response = await controllers.update_subresource("scale", "e2e-rc", changed, "default")
        assert response.spec.replicas == 2
        await c.clock.advance(2)
        controller = await c.get(ReplicationController, "e2e-rc")
        assert (controller.spec.replicas, controller.status.readyReplicas) == (2, 2)

    run_scenario(scenario)


def test_releases_pods_that_no_longer_match() -> None:
    """[sig-apps] ReplicationController should release no longer matching pods"""

    async def scenario(c: ReplicaCluster) -> None:
        created = await c.create(replication_controller("pod-release", 1, template({"name": "pod-release"})))
        (pod,) = await c.pods("name=pod-release")
        patch = {"metadata": {"labels": {"name": "released"}}}
        await c.for_kind(Pod).patch(pod.metadata.name, patch, "default", type=PatchType.MERGE)
        await c.clock.advance(1)
        released = await c.get(Pod, pod.metadata.name)
        assert created.metadata.uid not in [reference.uid for reference in released.metadata.ownerReferences]
        assert len(await c.pods("name=pod-release")) == 1

    run_scenario(scenario)


def test_serves_a_basic_image() -> None:
    """[sig-apps] ReplicationController should serve a basic image on each replica with a public image

    Hollow pods run the image in name only: what is asked of them is that they run, each on a node, with an address.
    """

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(replication_controller("basic", 2, template({"name": "basic"})))
        pods = await c.pods("name=basic")
        assert [is_running(pod) for pod in pods] == [True, True]
        assert len({pod.status.podIP for pod in pods}) == 2
        assert all(pod.spec.nodeName for pod in pods)

    run_scenario(scenario)


def test_exceeded_quota_sets_a_failure_condition() -> None:
    """[sig-apps] ReplicationController should surface a failure condition on a common issue like exceeded quota"""

    async def scenario(c: ReplicaCluster) -> None:
        value = {"metadata": {"name": "condition-test"}, "spec": {"hard": {"pods": "2"}}}
        await c.create(codec.from_value(value, ResourceQuota))
        await c.create(replication_controller("condition-test", 3, template({"name": "condition-test"})))
        controller = await c.get(ReplicationController, "condition-test")
        failure = condition(controller, "ReplicaFailure")
        assert (failure.status, failure.reason) == ("True", "FailedCreate")
        assert "exceeded quota" in failure.message
        assert len(await c.pods("name=condition-test")) == 2

        scaled = copy_of(controller)
        scaled.spec.replicas = 2
        await c.for_kind(ReplicationController).update(scaled)
        await c.clock.advance(1)
        assert condition(await c.get(ReplicationController, "condition-test"), "ReplicaFailure") is None

    run_scenario(scenario)


def test_lifecycle() -> None:
    """[sig-apps] ReplicationController should test the lifecycle of a ReplicationController"""

    async def scenario(c: ReplicaCluster) -> None:
        controllers = c.for_kind(ReplicationController)
        labels = {"test-rc-static": "true"}
        all_of_them = Selection(namespace="default", labels="test-rc-static=true")
        await c.create(replication_controller("rc-test", 1, template(labels)))
        assert (await c.get(ReplicationController, "rc-test")).status.readyReplicas == 1
        version = (await controllers.list(all_of_them)).resource_version

        patched = await controllers.patch("rc-test", {"metadata": {"labels": {"test-rc": "patched"}}}, "default")
        assert patched.metadata.labels == {"test-rc-static": "true", "test-rc": "patched"}
        status = {"status": {"readyReplicas": 0, "availableReplicas": 0}}
        controller = await controllers.patch("rc-test", status, "default", type=PatchType.MERGE, subresource="status")
        assert controller.status.readyReplicas == 0
        assert (await c.get(ReplicationController, "rc-test")).status.readyReplicas == 1

        await controllers.patch(
            "rc-test", {"spec": {"replicas": 2}}, "default", subresource="scale", type=PatchType.MERGE
        )
        await c.clock.advance(2)
        assert (await c.get(ReplicationController, "rc-test")).status.readyReplicas == 2
        everywhere = (await controllers.list(Selection(labels="test-rc-static=true"))).items
        assert [controller.metadata.name for controller in everywhere] == ["rc-test"]

        updated = copy_of(await c.get(ReplicationController, "rc-test"))
        updated.metadata.annotations["test"] = "updated"
        await controllers.update(updated)
        await controllers.delete_collection(all_of_them, options=DeleteParameters(propagation="Background"))
        await c.clock.advance(2)
        assert (await controllers.list(all_of_them)).items == []
        assert await c.pods("test-rc-static=true") == []
        async with controllers.watch(all_of_them, resource_version=version, timeout_s=1) as events:
            types = [event.type async for batch in events for event in batch]
        assert types[-1] == DELETED
        assert ADDED not in types

    run_scenario(scenario)
