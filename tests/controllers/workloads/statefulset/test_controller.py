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
from tests.controllers.cluster import second_run_writes_nothing
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, Stage
from tests.controllers.workloads.statefulset.objects import LABELS, stateful_set
from tests.controllers.workloads.statefulset.statefulset_cluster import Scene


def played(play: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with scene() as s:
            await play(s)

    asyncio.run(main())


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with pod_cluster() as c:
        async with c.running(StatefulSetController.name):
            yield Scene(c, Stage(c))
        await second_run_writes_nothing(c, StatefulSetController.name)


def test_pods_come_in_order_with_their_identities() -> None:
    async def play(s: Scene) -> None:
        await s.create(3)
        assert list(await s.stage.pods()) == ["web-0"]
        await s.stage.run("web-0", is_ready=False)
        assert list(await s.stage.pods()) == ["web-0"]
        await s.stage.run("web-0")
        assert list(await s.stage.pods()) == ["web-0", "web-1"]
        await s.stage.play()
        pods, sset = await s.stage.pods(), await s.set()
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
        assert await s.stage.events() == [
            ("SuccessfulCreate", f"Create Pod web-{at} in StatefulSet web successful") for at in range(3)
        ]

    played(play)


def test_parallel_pods_come_at_once_and_go_at_once() -> None:
    async def play(s: Scene) -> None:
        await s.create(5, policy="Parallel")
        assert len(await s.stage.pods()) == 5
        await s.stage.play()
        await s.patch({"replicas": 1})
        leaving = [name for name, pod in (await s.stage.pods()).items() if pod.metadata.deletionTimestamp]
        assert leaving == ["web-1", "web-2", "web-3", "web-4"]
        await s.stage.play()
        assert list(await s.stage.pods()) == ["web-0"]
        assert (await s.set()).status.replicas == 1

    played(play)


def test_scaling_down_goes_from_the_top_one_by_one() -> None:
    async def play(s: Scene) -> None:
        await s.create(3)
        await s.stage.play()
        await s.patch({"replicas": 1})
        leaving = [name for name, pod in (await s.stage.pods()).items() if pod.metadata.deletionTimestamp]
        assert leaving == ["web-2"]
        await s.stage.end("web-2")
        leaving = [name for name, pod in (await s.stage.pods()).items() if pod.metadata.deletionTimestamp]
        assert leaving == ["web-1"]
        await s.stage.play()
        assert list(await s.stage.pods()) == ["web-0"]
        assert ("SuccessfulDelete", "Delete Pod web-2 in StatefulSet web successful") in await s.stage.events()

    played(play)


def test_a_start_ordinal_moves_the_pods() -> None:
    async def play(s: Scene) -> None:
        await s.create(2)
        await s.stage.play()
        await s.patch({"ordinals": {"start": 3}})
        await s.stage.play()
        assert list(await s.stage.pods()) == ["web-3", "web-4"]

    played(play)


def test_a_rolling_update_and_the_way_back() -> None:
    async def play(s: Scene) -> None:
        await s.create(3)
        await s.stage.play()
        first = (await s.set()).status.currentRevision
        await s.use("two")
        status = (await s.set()).status
        assert status.currentRevision == first != status.updateRevision
        assert (status.currentReplicas, status.updatedReplicas) == (2, 0)
        assert (await s.stage.pods())["web-2"].metadata.deletionTimestamp is not None
        await s.stage.end("web-2")
        assert await s.images() == {"web-0": "one", "web-1": "one", "web-2": "two"}
        await s.stage.play()
        assert set((await s.images()).values()) == {"two"}
        status = (await s.set()).status
        assert status.currentRevision == status.updateRevision != first
        await s.use("one")
        await s.stage.play()
        assert set((await s.images()).values()) == {"one"}
        assert (await s.set()).status.currentRevision == first
        assert {number: revision.metadata.name == first for number, revision in (await s.revisions()).items()} == {
            2: False,
            3: True,
        }

    played(play)


def test_a_partition_holds_back_what_is_below_it() -> None:
    async def play(s: Scene) -> None:
        await s.create(3, partition=2)
        await s.stage.play()
        await s.use("two")
        await s.stage.play()
        assert await s.images() == {"web-0": "one", "web-1": "one", "web-2": "two"}
        await s.cluster.client.of(Pod).delete("web-0", NAMESPACE)
        await s.stage.play()
        assert (await s.images())["web-0"] == "one", "it comes back as it was"
        status = (await s.set()).status
        assert (status.currentReplicas, status.updatedReplicas) == (2, 1)
        await s.patch({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}})
        await s.stage.play()
        assert set((await s.images()).values()) == {"two"}

    played(play)


def test_on_delete_updates_what_somebody_deletes() -> None:
    async def play(s: Scene) -> None:
        await s.create(2, strategy="OnDelete")
        await s.stage.play()
        await s.use("two")
        await s.stage.play()
        assert set((await s.images()).values()) == {"one"}
        await s.cluster.client.of(Pod).delete("web-0", NAMESPACE)
        await s.stage.play()
        assert await s.images() == {"web-0": "two", "web-1": "one"}

    played(play)


def test_pods_that_ended_are_made_anew() -> None:
    async def play(s: Scene) -> None:
        await s.create(2)
        await s.stage.play()
        before = await s.stage.pods()
        await s.stage.fail("web-0")
        await s.stage.fail("web-1", "Succeeded")
        await s.stage.play()
        after = await s.stage.pods()
        assert [pod.status.phase for pod in after.values()] == ["Running", "Running"]
        assert {pod.metadata.uid for pod in before.values()}.isdisjoint(pod.metadata.uid for pod in after.values())

    played(play)


def test_a_pod_that_ends_again_and_again_is_replaced_ever_later() -> None:
    async def play(s: Scene) -> None:
        await s.create(1)
        for pause_s in (0, 1, 2, 4, 8, 16, 30, 30):
            await s.stage.run("web-0")
            uid = (await s.stage.pods())["web-0"].metadata.uid
            await s.stage.fail("web-0")
            if pause_s:
                await s.cluster.clock.advance(pause_s - 0.1)
                assert (await s.stage.pods())["web-0"].metadata.uid == uid
                await s.cluster.clock.advance(0.1)
            assert (await s.stage.pods())["web-0"].metadata.uid != uid
        await s.stage.play()

    played(play)


def test_ready_is_not_yet_available() -> None:
    async def play(s: Scene) -> None:
        await s.create(2, min_ready=30)
        await s.stage.run("web-0")
        assert list(await s.stage.pods()) == ["web-0"]
        assert ((await s.set()).status.readyReplicas, (await s.set()).status.availableReplicas) == (1, 0)
        await s.cluster.clock.advance(29)
        assert list(await s.stage.pods()) == ["web-0"]
        await s.cluster.clock.advance(1)
        assert list(await s.stage.pods()) == ["web-0", "web-1"]
        assert (await s.set()).status.availableReplicas == 1
        await s.stage.run("web-1")
        await s.cluster.clock.advance(30)
        assert (await s.set()).status.availableReplicas == 2

    played(play)


def test_history_is_as_long_as_its_limit() -> None:
    async def play(s: Scene) -> None:
        await s.create(1, limit=2)
        await s.stage.play()
        for image in ("two", "three", "four", "five"):
            await s.use(image)
            await s.stage.play()
        assert list(await s.revisions()) == [3, 4, 5], "the present one and two more"

    played(play)


def test_orphans_are_adopted_and_strangers_are_not() -> None:
    async def play(s: Scene) -> None:
        sset = stateful_set(1)
        orphan = Pod(metadata=sset.spec.template.metadata, spec=sset.spec.template.spec)
        orphan.metadata.name, orphan.metadata.namespace = "web-0", NAMESPACE
        await s.cluster.client.of(Pod).create(orphan)
        orphan.metadata.name = "other"
        await s.cluster.client.of(Pod).create(orphan)
        await s.create(1)
        await s.stage.play()
        pods = await s.stage.pods()
        assert list(pods) == ["other", "web-0"]
        assert pods["other"].metadata.ownerReferences == []
        assert revision_of(pods["web-0"]) == (await s.set()).status.updateRevision

    played(play)


def test_a_pod_that_loses_its_label_is_let_go_and_its_name_waited_for() -> None:
    async def play(s: Scene) -> None:
        await s.create(1)
        await s.stage.play()
        await s.cluster.client.of(Pod).patch("web-0", {"metadata": {"labels": {"app": "other"}}}, NAMESPACE)
        assert (await s.stage.pods())["web-0"].metadata.ownerReferences == []
        assert (await s.set()).status.replicas == 0
        await s.stage.end("web-0")
        await s.cluster.clock.advance(60)
        assert (await s.stage.pods())["web-0"].metadata.labels["app"] == "web"
        await s.stage.play()

    played(play)


def test_claims_come_with_pods_and_stay() -> None:
    async def play(s: Scene) -> None:
        await s.create(2, claims=["data", "log"])
        await s.stage.play()
        claims = await s.claims()
        assert sorted(claims) == ["data-web-0", "data-web-1", "log-web-0", "log-web-1"]
        assert claims["data-web-0"].metadata.labels == LABELS
        assert [claim.metadata.ownerReferences for claim in claims.values()] == [[]] * 4
        used = [volume.persistentVolumeClaim for volume in (await s.stage.pods())["web-1"].spec.volumes]
        assert [source.claimName for source in used if source] == ["data-web-1", "log-web-1"]
        await s.patch({"replicas": 0})
        await s.stage.play()
        assert len(await s.claims()) == 4
        assert (
            "SuccessfulCreate",
            "Create Claim data-web-0 Pod web-0 in StatefulSet web success",
        ) in await s.stage.events()

    played(play)


def test_claims_belong_to_whom_the_policy_says() -> None:
    async def owners(s: Scene) -> dict[str, list[str]]:
        claims = await s.claims()
        return {name: [ref.kind for ref in claim.metadata.ownerReferences] for name, claim in sorted(claims.items())}

    async def play(s: Scene) -> None:
        await s.create(2, claims=["data"], retention=("Delete", "Delete"))
        await s.stage.play()
        assert await owners(s) == {"data-web-0": ["StatefulSet"], "data-web-1": ["StatefulSet"]}
        await s.patch({"replicas": 1})
        assert await owners(s) == {"data-web-0": ["StatefulSet"], "data-web-1": ["Pod"]}
        await s.patch({"replicas": 2})
        await s.stage.end("web-1")
        assert list(await s.stage.pods()) == ["web-0"], "the claim goes with the old pod: the new one waits for it"
        await s.cluster.client.of(PersistentVolumeClaim).delete("data-web-1", NAMESPACE)
        await s.cluster.client.of(PersistentVolumeClaim).patch(
            "data-web-1", {"metadata": {"finalizers": None}}, NAMESPACE, type=PatchType.MERGE
        )
        await s.patch({"minReadySeconds": 1})
        await s.cluster.clock.advance(10)
        await s.stage.play()
        assert await owners(s) == {"data-web-0": ["StatefulSet"], "data-web-1": ["StatefulSet"]}
        await s.patch({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}})
        await s.cluster.clock.advance(10)
        assert await owners(s) == {"data-web-0": [], "data-web-1": []}
        assert ("SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful") in await s.stage.events()

    played(play)


def test_a_set_that_is_deleted_only_counts() -> None:
    async def play(s: Scene) -> None:
        await s.create(2, finalizers=["example.com/wait"])
        await s.cluster.client.of(StatefulSet).delete("web", NAMESPACE)
        await s.stage.play()
        assert list(await s.stage.pods()) == ["web-0"]
        assert (await s.set()).status.readyReplicas == 1

    played(play)


def test_revisions_without_an_owner_are_adopted() -> None:
    async def play(s: Scene) -> None:
        await s.create(1)
        await s.stage.play()
        name = (await s.set()).status.currentRevision
        revisions = s.cluster.client.of(ControllerRevision)
        await revisions.patch(name, {"metadata": {"ownerReferences": None}}, NAMESPACE, type=PatchType.MERGE)
        await s.patch({"minReadySeconds": 1})
        await s.cluster.clock.advance(5)
        kept = await s.revisions()
        assert [(revision.metadata.name, revision.metadata.ownerReferences[0].name) for revision in kept.values()] == [
            (name, "web")
        ]

    played(play)


def test_a_collision_of_names_is_counted() -> None:
    async def play(s: Scene) -> None:
        await s.create(0)
        first = next(iter((await s.revisions()).values()))
        await s.cluster.client.of(StatefulSet).delete("web", NAMESPACE)
        revisions = s.cluster.client.of(ControllerRevision)
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

    played(play)
