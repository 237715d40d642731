"""Conformance tests of sig-apps for Deployment. The first paragraph of a docstring is the official test name."""

from typing import Any

import pytest

from sampan.api.types.apps_v1 import Deployment, DeploymentCondition, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.machinery import errors
from sampan.machinery.client import ADDED, DeleteParameters, PatchType, Selection
from sampan.machinery.copies import copy_of
from tests.e2e.conformance.apps.replica_cluster import (
    IMAGE,
    OTHER_IMAGE,
    ReplicaCluster,
    condition,
    deployment,
    replica_set,
    run_scenario,
    template,
)

REVISION = "deployment.kubernetes.io/revision"


async def set_image(c: ReplicaCluster, name: str, image: str, **annotations: Any) -> None:
    behavior = {f"hollow.sampan.dev/{key}": value for key, value in annotations.items()}
    pods = {"metadata": {"annotations": behavior}, "spec": {"containers": [{"name": "c", "image": image}]}}
    await c.for_kind(Deployment).patch(name, {"spec": {"template": pods}}, "default")


def is_complete(deployment: Deployment) -> bool:
    status, count = deployment.status, deployment.spec.replicas
    counts = {status.replicas, status.updatedReplicas, status.availableReplicas}
    return counts == {count} and status.observedGeneration >= deployment.metadata.generation


def test_scale() -> None:
    """[sig-apps] Deployment Deployment should have a working scale subresource"""

    async def scenario(c: ReplicaCluster) -> None:
        deployments = c.for_kind(Deployment)
        await c.create(deployment("test-new-deployment", 1, template({"name": "sample"})))
        assert is_complete(await c.get(Deployment, "test-new-deployment"))
        scale = await deployments.get_subresource("scale", "test-new-deployment", "default")
        assert scale.spec.replicas == 1
        changed = copy_of(scale)
        changed.metadata.resourceVersion, changed.spec.replicas = "", 2
        response = await deployments.update_subresource("scale", "test-new-deployment", changed, "default")
        assert response.spec.replicas == 2
        assert (await c.get(Deployment, "test-new-deployment")).spec.replicas == 2
        patch = {"spec": {"replicas": 4}}
        await deployments.patch("test-new-deployment", patch, "default", type=PatchType.MERGE, subresource="scale")
        await c.clock.advance(2)
        deployment_ = await c.get(Deployment, "test-new-deployment")
        assert (deployment_.spec.replicas, is_complete(deployment_)) == (4, True)

    run_scenario(scenario)


def test_recreate() -> None:
    """[sig-apps] Deployment RecreateDeployment should delete old pods and create new ones"""

    async def scenario(c: ReplicaCluster) -> None:
        pods = template({"name": "sample-pod-3"}, OTHER_IMAGE, stop="5s")
        pods["spec"]["terminationGracePeriodSeconds"] = 30
        await c.create(deployment("test-recreate-deployment", 1, pods, strategy={"type": "Recreate"}))
        deployment_ = await c.get(Deployment, "test-recreate-deployment")
        assert (deployment_.metadata.annotations[REVISION], is_complete(deployment_)) == ("1", True)
        await set_image(c, "test-recreate-deployment", IMAGE)
        for _ in range(20):
            running = {container.image for pod in await c.pods() for container in pod.spec.containers or ()}
            assert len(running) <= 1
            await c.clock.advance(1)
        assert running == {IMAGE}
        deployment_ = await c.get(Deployment, "test-recreate-deployment")
        assert (deployment_.metadata.annotations[REVISION], is_complete(deployment_)) == ("2", True)

    run_scenario(scenario)


def test_rolling_update() -> None:
    """[sig-apps] Deployment RollingUpdateDeployment should delete old pods and create new ones"""

    async def scenario(c: ReplicaCluster) -> None:
        labels = {"name": "sample-pod"}
        old = template({**labels, "pod": "httpd"}, OTHER_IMAGE)
        annotations = {REVISION: "3546343826724305832"}
        await c.create(replica_set("test-rolling-update-controller", 1, old, annotations=annotations))
        await c.create(deployment("test-rolling-update-deployment", 1, template(labels)), 10)
        deployment_ = await c.get(Deployment, "test-rolling-update-deployment")
        assert deployment_.metadata.annotations[REVISION] == "3546343826724305833"
        assert is_complete(deployment_)
        sets = await c.sets()
        assert len(sets) == 2
        adopted = sets["test-rolling-update-controller"]
        assert [reference.uid for reference in adopted.metadata.ownerReferences] == [deployment_.metadata.uid]
        assert adopted.spec.replicas == 0
        assert [pod.metadata.labels for pod in await c.pods("pod=httpd")] == []

    run_scenario(scenario)


def test_old_replica_sets_are_deleted() -> None:
    """[sig-apps] Deployment deployment should delete old replica sets"""

    async def scenario(c: ReplicaCluster) -> None:
        labels = {"name": "cleanup-pod"}
        await c.create(replica_set("test-cleanup-controller", 1, template({**labels, "pod": "httpd"})))
        version = (await c.for_kind(Pod).list(Selection(namespace="default"))).resource_version
        await c.create(deployment("test-cleanup-deployment", 1, template(labels), revisionHistoryLimit=0), 10)
        assert len(await c.sets()) == 1
        chosen = Selection(namespace="default")
        async with c.for_kind(Pod).watch(chosen, resource_version=version, timeout_s=1) as events:
            added = [event async for batch in events for event in batch if event.type == ADDED]
        assert len(added) == 1

    run_scenario(scenario)


def test_proportional_scaling() -> None:
    """[sig-apps] Deployment deployment should support proportional scaling"""

    async def scenario(c: ReplicaCluster) -> None:
        update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        manifest = deployment("webserver-deployment", 10, template({"name": "httpd"}), strategy=update)
        await c.create(manifest)
        (first,) = (await c.sets()).values()
        assert first.status.availableReplicas == 10

        failing = {"pull-error": "no such image"}
        await set_image(c, "webserver-deployment", "webserver:404", **failing)
        await c.clock.advance(2)
        sizes = {rs.metadata.name == first.metadata.name: rs.spec.replicas for rs in (await c.sets()).values()}
        assert sizes == {True: 8, False: 5}
        await c.for_kind(Deployment).patch("webserver-deployment", {"spec": {"replicas": 30}}, "default")
        await c.clock.advance(2)
        sizes = {rs.metadata.name == first.metadata.name: rs.spec.replicas for rs in (await c.sets()).values()}
        assert sizes == {True: 20, False: 13}

    run_scenario(scenario)


def test_rollover() -> None:
    """[sig-apps] Deployment deployment should support rollover"""

    async def scenario(c: ReplicaCluster) -> None:
        labels = {"name": "rollover-pod"}
        await c.create(replica_set("test-rollover-controller", 1, template({**labels, "pod": "httpd"})))
        update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        stuck = template(labels, "redis:nonexistent", **{"pull-error": "no such image"})
        manifest = deployment("test-rollover-deployment", 1, stuck, strategy=update, minReadySeconds=10)
        await c.create(manifest)
        deployment_ = await c.get(Deployment, "test-rollover-deployment")
        assert deployment_.metadata.annotations[REVISION] == "1"
        assert deployment_.status.updatedReplicas == 1
        assert sorted((rs.spec.replicas, rs.status.replicas) for rs in (await c.sets()).values()) == [(1, 1), (1, 1)]

        await set_image(c, "test-rollover-deployment", IMAGE, **{"pull-error": None})
        await c.clock.advance(30)
        deployment_ = await c.get(Deployment, "test-rollover-deployment")
        assert (deployment_.metadata.annotations[REVISION], is_complete(deployment_)) == ("2", True)
        sets = await c.sets()
        assert sets["test-rollover-controller"].status.replicas == 0
        assert sorted(rs.spec.replicas or 0 for rs in sets.values()) == [0, 0, 1]

    run_scenario(scenario)


def test_lifecycle() -> None:
    """[sig-apps] Deployment should run the lifecycle of a Deployment"""

    async def scenario(c: ReplicaCluster) -> None:
        deployments = c.for_kind(Deployment)
        labels = {"test-deployment-static": "true"}
        await c.create(deployment("test-deployment", 2, template(labels)))
        assert (await c.get(Deployment, "test-deployment")).status.readyReplicas == 2

        pods = {"spec": {"containers": [{"name": "c", "image": OTHER_IMAGE}]}}
        patch = {"metadata": {"labels": {"test-deployment": "patched"}}, "spec": {"replicas": 1, "template": pods}}
        await deployments.patch("test-deployment", patch, "default")
        await c.clock.advance(2)
        deployment_ = await c.get(Deployment, "test-deployment")
        assert deployment_.metadata.labels["test-deployment"] == "patched"
        assert (deployment_.status.readyReplicas, is_complete(deployment_)) == (1, True)
        listed = (await deployments.list(Selection(labels="test-deployment-static=true"))).items
        assert [deployment_item.metadata.name for deployment_item in listed] == ["test-deployment"]

        updated = copy_of(deployment_)
        updated.spec.replicas = 2
        updated.metadata.labels["test-deployment"] = "updated"
        updated.spec.template.spec.containers[0].image = IMAGE
        await deployments.update(updated)
        await c.clock.advance(2)
        deployment_ = await c.get(Deployment, "test-deployment")
        assert (deployment_.status.readyReplicas, is_complete(deployment_)) == (2, True)

        status = {"status": {"readyReplicas": 0, "availableReplicas": 0}}
        patched = await deployments.patch(
            "test-deployment", status, "default", type=PatchType.MERGE, subresource="status"
        )
        assert patched.status.readyReplicas == 0
        deployment_ = await c.get(Deployment, "test-deployment")
        assert deployment_.status.readyReplicas == 2
        chosen = Selection(namespace="default", labels="test-deployment-static=true")
        await deployments.delete_collection(chosen, options=DeleteParameters(propagation="Background"))
        await c.clock.advance(2)
        assert (await deployments.list(chosen)).items == []
        assert await c.sets() == {}
        assert await c.pods() == []

    run_scenario(scenario)


def test_status_endpoints() -> None:
    """[sig-apps] Deployment should validate Deployment Status endpoints"""

    async def scenario(c: ReplicaCluster) -> None:
        deployments = c.for_kind(Deployment)
        await c.create(deployment("test-deployment", 1, template({"e2e": "testing"})))
        changed = copy_of(await c.get(Deployment, "test-deployment"))
        new_condition = DeploymentCondition(
            type="StatusUpdate", status="True", reason="E2E", message="Set from e2e test"
        )
        changed.status.conditions.append(new_condition)
        assert condition(await deployments.update_status(changed), "StatusUpdate").reason == "E2E"
        assert condition(await c.get(Deployment, "test-deployment"), "StatusUpdate").message == "Set from e2e test"
        patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
        await deployments.patch("test-deployment", patch, "default", type=PatchType.MERGE, subresource="status")
        assert condition(await c.get(Deployment, "test-deployment"), "StatusPatched").status == "True"
        await deployments.delete("test-deployment", "default", options=DeleteParameters(propagation="Background"))
        await c.clock.advance(2)
        with pytest.raises(errors.NotFound):
            await deployments.get("test-deployment", "default")
        assert (await c.for_kind(ReplicaSet).list_all(Selection(namespace="default"))).items == []

    run_scenario(scenario)
