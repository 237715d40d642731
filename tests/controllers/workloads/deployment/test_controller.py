"""deployment-controller together with the replicaset-controller and the real API server."""

from sampan.api.codec import json as codec
from sampan.api.semantics.conditions import find_condition
from sampan.api.semantics.owners import controller_of
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Event, ResourceQuota
from sampan.controllers.workloads.deployment.replicasets import HISTORY, REVISION, ROLLBACK_TO, new_replica_set
from sampan.machinery.client.options import DeleteParameters
from sampan.machinery.copies import copy_of
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.deployment.objects import LABELS, template
from tests.controllers.workloads.deployment.rollouts import create, get, patch, reason, set_image, sets, sizes
from tests.controllers.workloads.scheduler_and_kubelet import active_of, end, pods_of, run, settle_pods, step_pods

NAMES = ("deployment-controller", "replicaset-controller")


async def event_reasons(c: Cluster) -> list[str]:
    await c.clock.settle()
    events = (await c.client.for_kind(Event).list_all()).items
    return [f"{event.reason}: {event.message}" for event in events if event.involvedObject.kind == "Deployment"]


async def test_new_deployment_becomes_available() -> None:
    async with pod_cluster() as c:
        async with c.running(*NAMES):
            await create(c)
            (only,) = await sets(c)
            hash = only.metadata.labels["pod-template-hash"]
            assert only.metadata.name == f"web-{hash}"
            assert only.metadata.annotations == {
                "deployment.kubernetes.io/desired-replicas": "3",
                "deployment.kubernetes.io/max-replicas": "4",
                "deployment.kubernetes.io/revision": "1",
                "kubernetes.io/change-cause": "first",
            }
            assert await event_reasons(c) == [f"ScalingReplicaSet: Scaled up replica set web-{hash} from 0 to 3"]
            assert {pod.metadata.labels["pod-template-hash"] for pod in await pods_of(c)} == {hash}
            assert await reason(c, "Available") == "MinimumReplicasUnavailable"
            await settle_pods(c)
            deployment = await get(c)
            status = deployment.status
            assert (status.replicas, status.updatedReplicas, status.readyReplicas) == (3, 3, 3)
            assert (status.availableReplicas, status.unavailableReplicas) == (3, 0)
            assert (status.observedGeneration, deployment.metadata.generation) == (1, 1)
            assert deployment.metadata.annotations[REVISION] == "1"
            assert [
                (condition.type, condition.status, condition.reason, condition.message)
                for condition in status.conditions
            ] == [
                ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
                (
                    "Progressing",
                    "True",
                    "NewReplicaSetAvailable",
                    f'ReplicaSet "web-{hash}" has successfully progressed.',
                ),
            ]
        await check_second_run_writes_nothing(c, *NAMES)


async def test_rolling_update_respects_max_surge_and_max_unavailable() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await create(c, 3, strategy=update)
        await settle_pods(c)
        await set_image(c, "i:2")
        steps = 0
        while True:
            active = await active_of(c)
            ready = [pod for pod in active if any(condition.type == "Ready" for condition in pod.status.conditions)]
            assert len(active) <= 4
            assert len(ready) >= 3
            if not await step_pods(c):
                break
            steps += 1
        assert steps >= 3
        assert await sizes(c) == [0, 3]
        assert await reason(c) == "NewReplicaSetAvailable"
        assert (await get(c)).metadata.annotations[REVISION] == "2"
        old, new = (rs.metadata.name for rs in await sets(c))
        assert (await event_reasons(c))[1:] == [
            f"ScalingReplicaSet: Scaled up replica set {new} from 0 to 1",
            f"ScalingReplicaSet: Scaled down replica set {old} from 3 to 2",
            f"ScalingReplicaSet: Scaled up replica set {new} from 1 to 2",
            f"ScalingReplicaSet: Scaled down replica set {old} from 2 to 1",
            f"ScalingReplicaSet: Scaled up replica set {new} from 2 to 3",
            f"ScalingReplicaSet: Scaled down replica set {old} from 1 to 0",
        ]


async def test_reverted_template_reuses_the_old_replicaset() -> None:
    async with pod_cluster() as c:
        async with c.running(*NAMES):
            await create(c)
            await settle_pods(c)
            await set_image(c, "i:2")
            await settle_pods(c)
            await set_image(c, "i:1")
            await settle_pods(c)
            second, first = await sets(c)
            assert await sizes(c) == [0, 3]
            assert first.metadata.annotations[REVISION] == "3"
            assert first.metadata.annotations[HISTORY] == "1"
            assert second.metadata.annotations[REVISION] == "2"
            assert (await get(c)).metadata.annotations[REVISION] == "3"
        await check_second_run_writes_nothing(c, *NAMES)


async def test_rollback_by_annotation() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        await create(c)
        await settle_pods(c)
        changed = copy_of(await get(c))
        assert changed.spec.template.spec.containers is not None
        changed.spec.template.spec.containers[0].image = "i:2"
        changed.metadata.annotations["kubernetes.io/change-cause"] = "second"
        await c.client.for_kind(Deployment).update(changed)
        await settle_pods(c)
        patch = {"metadata": {"annotations": {ROLLBACK_TO: "1"}}}
        await c.client.for_kind(Deployment).patch("web", patch, "default")
        await settle_pods(c)
        deployment = await get(c)
        assert deployment.spec.template.spec.containers is not None
        assert deployment.spec.template.spec.containers[0].image == "i:1"
        assert deployment.metadata.annotations == {"kubernetes.io/change-cause": "first", REVISION: "3"}
        assert 'DeploymentRollback: Rolled back deployment "web" to revision 1' in await event_reasons(c)


async def test_a_paused_deployment_is_scaled_and_resumes() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        await create(c)
        await settle_pods(c)
        await patch(c, paused=True)
        await set_image(c, "i:2")
        assert await reason(c) == "DeploymentPaused"
        assert await sizes(c) == [3]
        await patch(c, replicas=5)
        assert await sizes(c) == [5]
        await settle_pods(c)
        await patch(c, paused=False)
        await settle_pods(c)
        assert await sizes(c) == [0, 5]
        assert await reason(c) == "NewReplicaSetAvailable"


async def test_recreate_never_runs_old_and_new_pods_together() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        await create(c, 2, strategy={"type": "Recreate"})
        await settle_pods(c)
        await set_image(c, "i:2")
        deleted = await pods_of(c)
        assert len(deleted) == 2
        assert all(pod.metadata.deletionTimestamp for pod in deleted)
        assert await sizes(c) == [0]
        await end(c, deleted[0])
        assert len(await pods_of(c)) == 1
        await end(c, deleted[1])
        assert await sizes(c) == [0, 2]
        await settle_pods(c)
        assert await reason(c) == "NewReplicaSetAvailable"


async def test_stalled_update_exceeds_the_progress_deadline() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        await create(c, 1, progressDeadlineSeconds=30)
        await pods_of(c)
        assert await reason(c) == "ReplicaSetUpdated"
        await c.clock.advance(30)
        assert await reason(c) == "ReplicaSetUpdated"
        await c.clock.advance(2)
        condition = find_condition((await get(c)).status.conditions, "Progressing")
        (only,) = await sets(c)
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "ProgressDeadlineExceeded")
        assert condition.message == f'ReplicaSet "{only.metadata.name}" has timed out progressing.'
        await settle_pods(c)
        assert await reason(c) == "NewReplicaSetAvailable"


async def test_old_replicasets_beyond_the_history_limit_are_deleted() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        await create(c, 1, revisionHistoryLimit=1)
        for image in ("i:2", "i:3", "i:4"):
            await settle_pods(c)
            await set_image(c, image)
        await settle_pods(c)
        assert [rs.metadata.annotations[REVISION] for rs in await sets(c)] == ["3", "4"]


async def test_scaling_during_an_update_is_proportional() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        await create(c, 8, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}})
        await settle_pods(c)
        await set_image(c, "i:2")
        assert await sizes(c) == [6, 4]
        await patch(c, replicas=16)
        assert await sizes(c) == [11, 7]
        await settle_pods(c)
        assert await sizes(c) == [0, 16]


async def test_replicaset_name_collision_changes_the_hash() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        dry = await c.client.for_kind(Deployment).create(
            codec.from_value(
                {
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template()},
                },
                Deployment,
            )
        )
        replica_set = copy_of(new_replica_set(dry, 0, 1))
        await c.client.for_kind(Deployment).delete("web", "default", options=DeleteParameters(propagation="Background"))
        for rs in await sets(c):
            await c.client.for_kind(ReplicaSet).delete(rs.metadata.name, "default")
        replica_set.metadata.ownerReferences = []
        replica_set.metadata.labels = {"app": "other"}
        await c.client.for_kind(ReplicaSet).create(replica_set)

        await create(c)
        await settle_pods(c)
        deployment = await get(c)
        assert deployment.status.collisionCount == 1
        assert (deployment.status.readyReplicas, await reason(c)) == (3, "NewReplicaSetAvailable")
        assert len(await sets(c)) == 2


async def test_orphaned_replicaset_is_adopted() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        first = await create(c)
        await settle_pods(c)
        await c.client.for_kind(Deployment).delete("web", "default", options=DeleteParameters(propagation="Background"))
        (only,) = await sets(c)
        orphan = copy_of(only)
        orphan.metadata.ownerReferences = []
        await c.client.for_kind(ReplicaSet).update(orphan)
        second = await create(c)
        assert first.metadata.uid != second.metadata.uid
        (only,) = await sets(c)
        reference = controller_of(only)
        assert reference is not None
        assert reference.uid == second.metadata.uid
        await settle_pods(c)
        assert len(await pods_of(c)) == 3
        assert (await get(c)).status.updatedReplicas == 3


async def test_rejected_pods_set_the_replica_failure_condition() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        value = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "0"}}}
        quotas = c.client.for_kind(ResourceQuota)
        quota = copy_of(await quotas.create(codec.from_value(value, ResourceQuota)))
        quota.status.hard, quota.status.used = {"pods": "0"}, {"pods": "0"}
        await quotas.update_status(quota)
        await create(c)
        assert await reason(c, "ReplicaFailure") == "FailedCreate"
        await quotas.delete("q", "default")
        await c.clock.advance(60)
        await settle_pods(c)
        assert await reason(c, "ReplicaFailure") == ""
        assert await reason(c) == "NewReplicaSetAvailable"


async def test_a_replica_set_that_cannot_be_created_is_reported() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        value = {
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {"count/replicasets.apps": "0"}},
        }
        quotas = c.client.for_kind(ResourceQuota)
        quota = copy_of(await quotas.create(codec.from_value(value, ResourceQuota)))
        quota.status.hard = quota.status.used = {"count/replicasets.apps": "0"}
        await quotas.update_status(quota)
        await create(c)
        assert await reason(c) == "ReplicaSetCreateError"
        assert (await event_reasons(c))[0].startswith('ReplicaSetCreateError: Failed to create new replica set "web-')
        await quotas.delete("q", "default")
        await c.clock.advance(60)
        await settle_pods(c)
        assert await reason(c) == "NewReplicaSetAvailable"


async def test_deployment_is_available_after_min_ready_seconds() -> None:
    async with pod_cluster() as c, c.running(*NAMES):
        await create(c, 1, minReadySeconds=20)
        (pod,) = await pods_of(c)
        await run(c, pod)
        assert (await get(c)).status.readyReplicas == 1
        assert await reason(c, "Available") == "MinimumReplicasUnavailable"
        await c.clock.advance(20)
        assert await reason(c, "Available") == "MinimumReplicasAvailable"
        await patch(c, minReadySeconds=5)
        assert [rs.spec.minReadySeconds for rs in await sets(c)] == [5]


async def test_new_deployment_takes_at_most_12_writes() -> None:
    """The status of the Deployment is written twice, and that of its ReplicaSet once."""
    async with pod_cluster() as c, c.running(*NAMES):
        before = await c.revision()
        await create(c, 3)
        await pods_of(c)
        writes = await c.revision() - before
        assert writes <= 1 + 1 + 3 + 4 + 2 + 1  # Deployment, ReplicaSet, pods, events, statuses of both
