"""statefulset-controller, against an API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sampan.api.types.apps_v1 import ControllerRevision, StatefulSet
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.api.values.scalars import RawJSON
from sampan.controllers.workloads.statefulset.controller import StatefulSetController
from sampan.controllers.workloads.statefulset.identity import INDEX_LABEL, POD_NAME_LABEL, revision_of
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from tests.controllers.cluster import check_second_run_writes_nothing
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, FakeKubelet
from tests.controllers.workloads.statefulset.objects import LABELS, stateful_set
from tests.controllers.workloads.statefulset.statefulset_cluster import StatefulSetCluster


def run_scenario(scenario: Callable[[StatefulSetCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with stateful_set_cluster() as s:
            await scenario(s)

    asyncio.run(main())


@asynccontextmanager
async def stateful_set_cluster() -> AsyncIterator[StatefulSetCluster]:
    async with pod_cluster() as c:
        async with c.running(StatefulSetController.name):
            yield StatefulSetCluster(c, FakeKubelet(c))
        await check_second_run_writes_nothing(c, StatefulSetController.name)


def test_pods_are_created_in_order_with_stable_identities() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(3)
        assert list(await s.kubelet.pods()) == ["web-0"]
        await s.kubelet.run("web-0", is_ready=False)
        assert list(await s.kubelet.pods()) == ["web-0"]
        await s.kubelet.run("web-0")
        assert list(await s.kubelet.pods()) == ["web-0", "web-1"]
        await s.kubelet.run_all()
        pods, sset = await s.kubelet.pods(), await s.set()
        assert list(pods) == ["web-0", "web-1", "web-2"]
        revision = sset.status.currentRevision
        for at, pod in enumerate(pods.values()):
            assert pod.metadata.labels == {
                **LABELS,
                POD_NAME_LABEL: f"web-{at}",
                INDEX_LABEL: str(at),
                "controller-revision-hash": revision,
            }
            assert (pod.spec.hostname, pod.spec.subdomain) == (f"web-{at}", "nginx")
            assert pod.metadata.ownerReferences[0].uid == sset.metadata.uid
        status = sset.status
        assert (status.replicas, status.readyReplicas, status.availableReplicas) == (3, 3, 3)
        assert (status.currentReplicas, status.updatedReplicas) == (3, 3)
        assert status.updateRevision == revision == (await s.revisions())[1].metadata.name
        assert status.observedGeneration == sset.metadata.generation == 1
        assert status.collisionCount == 0
        assert await s.kubelet.events() == [
            ("SuccessfulCreate", f"Create Pod web-{at} in StatefulSet web successful") for at in range(3)
        ]

    run_scenario(scenario)


def test_parallel_policy_creates_and_deletes_all_pods_together() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(5, policy="Parallel")
        assert len(await s.kubelet.pods()) == 5
        await s.kubelet.run_all()
        await s.patch({"replicas": 1})
        deleted = [name for name, pod in (await s.kubelet.pods()).items() if pod.metadata.deletionTimestamp]
        assert deleted == ["web-1", "web-2", "web-3", "web-4"]
        await s.kubelet.run_all()
        assert list(await s.kubelet.pods()) == ["web-0"]
        assert (await s.set()).status.replicas == 1

    run_scenario(scenario)


def test_scale_down_deletes_one_pod_at_a_time_from_the_highest_ordinal() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(3)
        await s.kubelet.run_all()
        await s.patch({"replicas": 1})
        deleted = [name for name, pod in (await s.kubelet.pods()).items() if pod.metadata.deletionTimestamp]
        assert deleted == ["web-2"]
        await s.kubelet.end("web-2")
        deleted = [name for name, pod in (await s.kubelet.pods()).items() if pod.metadata.deletionTimestamp]
        assert deleted == ["web-1"]
        await s.kubelet.run_all()
        assert list(await s.kubelet.pods()) == ["web-0"]
        assert ("SuccessfulDelete", "Delete Pod web-2 in StatefulSet web successful") in await s.kubelet.events()

    run_scenario(scenario)


def test_changed_start_ordinal_replaces_the_pods() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2)
        await s.kubelet.run_all()
        await s.patch({"ordinals": {"start": 3}})
        await s.kubelet.run_all()
        assert list(await s.kubelet.pods()) == ["web-3", "web-4"]

    run_scenario(scenario)


def test_rolling_update_and_rollback() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(3)
        await s.kubelet.run_all()
        first = (await s.set()).status.currentRevision
        await s.set_image("two")
        status = (await s.set()).status
        assert status.currentRevision == first != status.updateRevision
        assert (status.currentReplicas, status.updatedReplicas) == (2, 0)
        assert (await s.kubelet.pods())["web-2"].metadata.deletionTimestamp is not None
        await s.kubelet.end("web-2")
        assert await s.images() == {"web-0": "one", "web-1": "one", "web-2": "two"}
        await s.kubelet.run_all()
        assert set((await s.images()).values()) == {"two"}
        status = (await s.set()).status
        assert status.currentRevision == status.updateRevision != first
        await s.set_image("one")
        await s.kubelet.run_all()
        assert set((await s.images()).values()) == {"one"}
        assert (await s.set()).status.currentRevision == first
        assert {number: revision.metadata.name == first for number, revision in (await s.revisions()).items()} == {
            2: False,
            3: True,
        }

    run_scenario(scenario)


def test_partition_keeps_lower_ordinals_at_the_old_revision() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(3, partition=2)
        await s.kubelet.run_all()
        await s.set_image("two")
        await s.kubelet.run_all()
        assert await s.images() == {"web-0": "one", "web-1": "one", "web-2": "two"}
        await s.cluster.client.for_kind(Pod).delete("web-0", NAMESPACE)
        await s.kubelet.run_all()
        assert (await s.images())["web-0"] == "one", "a pod below the partition is recreated from the old template"
        status = (await s.set()).status
        assert (status.currentReplicas, status.updatedReplicas) == (2, 1)
        await s.patch({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}})
        await s.kubelet.run_all()
        assert set((await s.images()).values()) == {"two"}

    run_scenario(scenario)


def test_on_delete_strategy_updates_only_deleted_pods() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2, strategy="OnDelete")
        await s.kubelet.run_all()
        await s.set_image("two")
        await s.kubelet.run_all()
        assert set((await s.images()).values()) == {"one"}
        await s.cluster.client.for_kind(Pod).delete("web-0", NAMESPACE)
        await s.kubelet.run_all()
        assert await s.images() == {"web-0": "two", "web-1": "one"}

    run_scenario(scenario)


def test_failed_and_succeeded_pods_are_recreated() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2)
        await s.kubelet.run_all()
        before = await s.kubelet.pods()
        await s.kubelet.fail("web-0")
        await s.kubelet.fail("web-1", "Succeeded")
        await s.kubelet.run_all()
        after = await s.kubelet.pods()
        assert [pod.status.phase for pod in after.values()] == ["Running", "Running"]
        assert {pod.metadata.uid for pod in before.values()}.isdisjoint(pod.metadata.uid for pod in after.values())

    run_scenario(scenario)


def test_pod_that_fails_repeatedly_is_recreated_with_back_off() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(1)
        for pause_s in (0, 1, 2, 4, 8, 16, 30, 30):
            await s.kubelet.run("web-0")
            uid = (await s.kubelet.pods())["web-0"].metadata.uid
            await s.kubelet.fail("web-0")
            if pause_s:
                await s.cluster.clock.advance(pause_s - 0.1)
                assert (await s.kubelet.pods())["web-0"].metadata.uid == uid
                await s.cluster.clock.advance(0.1)
            assert (await s.kubelet.pods())["web-0"].metadata.uid != uid
        await s.kubelet.run_all()

    run_scenario(scenario)


def test_next_pod_waits_for_min_ready_seconds() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2, min_ready=30)
        await s.kubelet.run("web-0")
        assert list(await s.kubelet.pods()) == ["web-0"]
        assert ((await s.set()).status.readyReplicas, (await s.set()).status.availableReplicas) == (1, 0)
        await s.cluster.clock.advance(29)
        assert list(await s.kubelet.pods()) == ["web-0"]
        await s.cluster.clock.advance(1)
        assert list(await s.kubelet.pods()) == ["web-0", "web-1"]
        assert (await s.set()).status.availableReplicas == 1
        await s.kubelet.run("web-1")
        await s.cluster.clock.advance(30)
        assert (await s.set()).status.availableReplicas == 2

    run_scenario(scenario)


def test_revisions_are_pruned_to_the_history_limit() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(1, limit=2)
        await s.kubelet.run_all()
        for image in ("two", "three", "four", "five"):
            await s.set_image(image)
            await s.kubelet.run_all()
        assert list(await s.revisions()) == [3, 4, 5], "the current revision and two old ones"

    run_scenario(scenario)


def test_orphaned_pod_is_adopted_only_if_its_name_matches() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        sset = stateful_set(1)
        orphan = Pod(metadata=sset.spec.template.metadata, spec=sset.spec.template.spec)
        orphan.metadata.name, orphan.metadata.namespace = "web-0", NAMESPACE
        await s.cluster.client.for_kind(Pod).create(orphan)
        orphan.metadata.name = "other"
        await s.cluster.client.for_kind(Pod).create(orphan)
        await s.create(1)
        await s.kubelet.run_all()
        pods = await s.kubelet.pods()
        assert list(pods) == ["other", "web-0"]
        assert pods["other"].metadata.ownerReferences == []
        assert revision_of(pods["web-0"]) == (await s.set()).status.updateRevision

    run_scenario(scenario)


def test_relabelled_pod_is_released_and_recreated_once_its_name_is_free() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(1)
        await s.kubelet.run_all()
        await s.cluster.client.for_kind(Pod).patch("web-0", {"metadata": {"labels": {"app": "other"}}}, NAMESPACE)
        assert (await s.kubelet.pods())["web-0"].metadata.ownerReferences == []
        assert (await s.set()).status.replicas == 0
        await s.kubelet.end("web-0")
        await s.cluster.clock.advance(60)
        assert (await s.kubelet.pods())["web-0"].metadata.labels["app"] == "web"
        await s.kubelet.run_all()

    run_scenario(scenario)


def test_claims_are_created_with_pods_and_retained() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2, claims=["data", "log"])
        await s.kubelet.run_all()
        claims = await s.claims()
        assert sorted(claims) == ["data-web-0", "data-web-1", "log-web-0", "log-web-1"]
        assert claims["data-web-0"].metadata.labels == LABELS
        assert [claim.metadata.ownerReferences for claim in claims.values()] == [[]] * 4
        used = [volume.persistentVolumeClaim for volume in (await s.kubelet.pods())["web-1"].spec.volumes]
        assert [source.claimName for source in used if source] == ["data-web-1", "log-web-1"]
        await s.patch({"replicas": 0})
        await s.kubelet.run_all()
        assert len(await s.claims()) == 4
        assert (
            "SuccessfulCreate",
            "Create Claim data-web-0 Pod web-0 in StatefulSet web success",
        ) in await s.kubelet.events()

    run_scenario(scenario)


def test_owners_of_claims_follow_the_retention_policy() -> None:
    async def owners(s: StatefulSetCluster) -> dict[str, list[str]]:
        claims = await s.claims()
        return {name: [ref.kind for ref in claim.metadata.ownerReferences] for name, claim in sorted(claims.items())}

    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2, claims=["data"], retention=("Delete", "Delete"))
        await s.kubelet.run_all()
        assert await owners(s) == {"data-web-0": ["StatefulSet"], "data-web-1": ["StatefulSet"]}
        await s.patch({"replicas": 1})
        assert await owners(s) == {"data-web-0": ["StatefulSet"], "data-web-1": ["Pod"]}
        await s.patch({"replicas": 2})
        await s.kubelet.end("web-1")
        assert list(await s.kubelet.pods()) == ["web-0"], "the new pod waits until the claim of the old pod is deleted"
        await s.cluster.client.for_kind(PersistentVolumeClaim).delete("data-web-1", NAMESPACE)
        await s.cluster.client.for_kind(PersistentVolumeClaim).patch(
            "data-web-1", {"metadata": {"finalizers": None}}, NAMESPACE, type=PatchType.MERGE
        )
        await s.patch({"minReadySeconds": 1})
        await s.cluster.clock.advance(10)
        await s.kubelet.run_all()
        assert await owners(s) == {"data-web-0": ["StatefulSet"], "data-web-1": ["StatefulSet"]}
        await s.patch({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}})
        await s.cluster.clock.advance(10)
        assert await owners(s) == {"data-web-0": [], "data-web-1": []}
        assert ("SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful") in await s.kubelet.events()

    run_scenario(scenario)


def test_deleted_statefulset_only_updates_its_status() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2, finalizers=["example.com/wait"])
        await s.cluster.client.for_kind(StatefulSet).delete("web", NAMESPACE)
        await s.kubelet.run_all()
        assert list(await s.kubelet.pods()) == ["web-0"]
        assert (await s.set()).status.readyReplicas == 1

    run_scenario(scenario)


def test_revisions_without_an_owner_are_adopted() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(1)
        await s.kubelet.run_all()
        name = (await s.set()).status.currentRevision
        revisions = s.cluster.client.for_kind(ControllerRevision)
        await revisions.patch(name, {"metadata": {"ownerReferences": None}}, NAMESPACE, type=PatchType.MERGE)
        await s.patch({"minReadySeconds": 1})
        await s.cluster.clock.advance(5)
        kept = await s.revisions()
        assert [(revision.metadata.name, revision.metadata.ownerReferences[0].name) for revision in kept.values()] == [
            (name, "web")
        ]

    run_scenario(scenario)


def test_revision_name_collision_is_counted() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(0)
        first = next(iter((await s.revisions()).values()))
        await s.cluster.client.for_kind(StatefulSet).delete("web", NAMESPACE)
        revisions = s.cluster.client.for_kind(ControllerRevision)
        await revisions.delete(first.metadata.name, NAMESPACE)
        revision = copy_of(first)
        revision.data = RawJSON(b'{"x":1}')
        revision.metadata.resourceVersion = revision.metadata.uid = ""
        revision.metadata.ownerReferences = []
        revision.metadata.labels = {}
        await revisions.create(revision)
        await s.create(0)
        sset = await s.set()
        assert sset.status.collisionCount == 1
        assert sset.status.updateRevision != first.metadata.name

    run_scenario(scenario)
