"""Conformance tests of sig-api-machinery for the garbage collector. The docstring is the official test name."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import Deployment
from sampan.api.types.core_v1 import Pod, ReplicationController
from sampan.machinery.client import DeleteParameters
from sampan.machinery.errors import NotFound
from tests.e2e.conformance.apps.replica_cluster import (
    ReplicaCluster,
    deployment,
    is_running,
    replication_controller,
    run_scenario,
    template,
)

LABELS = {"name": "gc"}
BACKGROUND, FOREGROUND, ORPHAN = (DeleteParameters(propagation=word) for word in ("Background", "Foreground", "Orphan"))


async def is_gone(c: ReplicaCluster, type: type[Any], name: str) -> bool:
    with pytest.raises(NotFound):
        await c.get(type, name)
    return True


def slow_template(labels: dict[str, str]) -> dict[str, Any]:
    """Return a pod template with a grace period and a finalizer, so that pods do not disappear at once."""
    pod_template = template(labels)
    pod_template["spec"]["terminationGracePeriodSeconds"] = 30
    pod_template["metadata"]["finalizers"] = ["example.com/last"]
    return pod_template


def test_background_deletion_of_a_deployment() -> None:
    """[sig-api-machinery] Garbage collector should delete RS created by deployment when not orphaning"""

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(deployment("d", 2, template(LABELS)))
        assert len(await c.sets()) == 1
        await c.for_kind(Deployment).delete("d", "default", options=BACKGROUND)
        await c.clock.advance(2)
        assert await is_gone(c, Deployment, "d")
        assert await c.sets() == {}
        assert await c.pods() == []

    run_scenario(scenario)


def test_background_deletion_of_a_replication_controller() -> None:
    """[sig-api-machinery] Garbage collector should delete pods created by rc when not orphaning"""

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(replication_controller("rc", 2, template(LABELS)))
        assert len(await c.pods()) == 2
        await c.for_kind(ReplicationController).delete("rc", "default", options=BACKGROUND)
        await c.clock.advance(2)
        assert await is_gone(c, ReplicationController, "rc")
        assert await c.pods() == []

    run_scenario(scenario)


def test_foreground_deletion_of_a_replication_controller() -> None:
    """[sig-api-machinery] Garbage collector should keep the rc around until all its pods are deleted if the
    deleteOptions says so [Serial]"""

    async def scenario(c: ReplicaCluster) -> None:
        controllers, pods = c.for_kind(ReplicationController), c.for_kind(Pod)
        await c.create(replication_controller("rc", 10, slow_template(LABELS)), 5)
        assert sum(map(is_running, await c.pods())) == 10
        await controllers.delete("rc", "default", options=FOREGROUND)
        await c.clock.advance(40)
        controller = await c.get(ReplicationController, "rc")
        assert controller.metadata.finalizers == ["foregroundDeletion"]
        left = await c.pods()
        assert len(left) == 10
        assert all(pod.metadata.deletionTimestamp is not None for pod in left)
        for pod in left:
            await pods.patch(
                pod.metadata.name,
                {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/last"]}},
                "default",
            )
        await c.clock.advance(5)
        assert await c.pods() == []
        assert await is_gone(c, ReplicationController, "rc")

    run_scenario(scenario)


def test_orphaning_deletion_of_a_replication_controller() -> None:
    """[sig-api-machinery] Garbage collector should orphan pods created by rc if delete options say so [Serial]"""

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(replication_controller("rc", 10, template(LABELS)), 5)
        await c.for_kind(ReplicationController).delete("rc", "default", options=ORPHAN)
        await c.clock.advance(30)
        assert await is_gone(c, ReplicationController, "rc")
        left = await c.pods()
        assert len(left) == 10
        assert all(pod.metadata.ownerReferences == [] for pod in left)

    run_scenario(scenario)


def test_orphaning_deletion_of_a_deployment() -> None:
    """[sig-api-machinery] Garbage collector should orphan RS created by deployment when
    deleteOptions.PropagationPolicy is Orphan"""

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(deployment("d", 2, template(LABELS)))
        await c.for_kind(Deployment).delete("d", "default", options=ORPHAN)
        await c.clock.advance(30)
        assert await is_gone(c, Deployment, "d")
        (left,) = (await c.sets()).values()
        assert left.metadata.ownerReferences == []
        assert len(await c.pods()) == 2

    run_scenario(scenario)


def test_dependent_with_another_valid_owner_is_kept() -> None:
    """[sig-api-machinery] Garbage collector should not delete dependents that have both valid owner and owner that's
    waiting for dependents to be deleted [Serial]"""

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(replication_controller("to-be-deleted", 10, template(LABELS)), 5)
        stays = await c.create(replication_controller("to-stay", 0, template({"name": "stay"})))
        half = (await c.pods("name=gc"))[:5]
        owner = {"apiVersion": "v1", "kind": "ReplicationController", "name": "to-stay", "uid": stays.metadata.uid}
        for pod in half:
            await c.for_kind(Pod).patch(pod.metadata.name, {"metadata": {"ownerReferences": [owner]}}, "default")
        await c.for_kind(ReplicationController).delete("to-be-deleted", "default", options=FOREGROUND)
        await c.clock.advance(10)
        assert await is_gone(c, ReplicationController, "to-be-deleted")
        left = await c.pods("name=gc")
        assert {pod.metadata.name for pod in left} == {pod.metadata.name for pod in half}
        for pod in left:
            assert pod.metadata.deletionTimestamp is None
            assert [ref.uid for ref in pod.metadata.ownerReferences] == [stays.metadata.uid]

    run_scenario(scenario)


def test_owner_reference_cycle_does_not_block_deletion() -> None:
    """[sig-api-machinery] Garbage collector should not be blocked by dependency circle"""

    async def scenario(c: ReplicaCluster) -> None:
        pods = c.for_kind(Pod)
        uids = {}
        for name in ("pod1", "pod2", "pod3"):
            value = {"metadata": {"name": name}, "spec": template(LABELS)["spec"]}
            uids[name] = await c.create(codec.from_value(value, Pod))
        for name, owner in (("pod1", "pod3"), ("pod2", "pod1"), ("pod3", "pod2")):
            ref = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uids[owner].metadata.uid}
            refs = [{**ref, "controller": True, "blockOwnerDeletion": True}]
            await pods.patch(name, {"metadata": {"ownerReferences": refs}}, "default")
        await c.clock.settle()
        await pods.delete("pod1", "default", options=FOREGROUND)
        await c.clock.advance(10)
        assert await c.pods() == []

    run_scenario(scenario)
