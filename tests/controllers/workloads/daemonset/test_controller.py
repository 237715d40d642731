"""daemonset-controller, against an API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json
from sampan.api.types.apps_v1 import ControllerRevision, DaemonSet
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values.scalars import RawJSON
from sampan.controllers.workloads.daemonset.controller import BURST, DaemonSetController
from sampan.controllers.workloads.daemonset.nodes import GENERATION_LABEL, HASH_LABEL, target_node
from sampan.machinery.client import PatchType
from sampan.machinery.copies import copy_of
from tests.controllers.cluster import Cluster, second_run_writes_nothing
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.daemonset.objects import LABELS, daemon_set, node
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, Stage


@dataclass(slots=True)
class Scene:
    cluster: Cluster
    stage: Stage

    async def nodes(self, *names: str, **fields: Any) -> None:
        """That are ready: the server gives a new node a taint, which others take off."""
        for name in names:
            new_node = node(name, **fields)
            nodes = self.cluster.client.of(Node)
            await nodes.create(new_node)
            taints = json.to_value(new_node)["spec"].get("taints")
            await nodes.patch(name, {"spec": {"taints": taints}}, type=PatchType.MERGE)
        await self.cluster.clock.settle()

    async def create(self, **fields: Any) -> DaemonSet:
        created_daemon_set = await self.cluster.client.of(DaemonSet).create(daemon_set(**fields))
        await self.cluster.clock.settle()
        return created_daemon_set

    async def set(self) -> DaemonSet:
        await self.cluster.clock.settle()
        return await self.cluster.client.of(DaemonSet).get("logs", NAMESPACE)

    async def patch(self, spec: dict[str, Any]) -> None:
        await self.cluster.client.of(DaemonSet).patch("logs", {"spec": spec}, NAMESPACE)
        await self.cluster.clock.settle()

    async def use(self, image: str) -> None:
        await self.patch({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}})

    async def label(self, name: str, **labels: str | None) -> None:
        await self.cluster.client.of(Node).patch(name, {"metadata": {"labels": labels}})
        await self.cluster.clock.settle()

    async def taint(self, name: str, *taints: str) -> None:
        spec = {"taints": [{"key": "t", "effect": effect} for effect in taints] or None}
        await self.cluster.client.of(Node).patch(name, {"spec": spec}, type=PatchType.MERGE)
        await self.cluster.clock.settle()

    async def where(self, *, image: str = "") -> list[str]:
        """The nodes of pods that are to stay, of those with that image if told."""
        names = [
            target_node(pod)
            for pod in (await self.stage.pods()).values()
            if pod.metadata.deletionTimestamp is None and (pod.spec.containers or [])[0].image in (image or "one two")
        ]
        return sorted(names)

    async def revisions(self) -> dict[int, ControllerRevision]:
        revisions = (await self.cluster.client.of(ControllerRevision).list()).items
        return {revision.revision: revision for revision in sorted(revisions, key=lambda revision: revision.revision)}


def played(play: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with scene() as s:
            await play(s)

    asyncio.run(main())


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with pod_cluster() as c:
        async with c.running(DaemonSetController.name):
            yield Scene(c, Stage(c))
        await second_run_writes_nothing(c, DaemonSetController.name)


def test_a_pod_on_every_node() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1", "n2", "n3")
        await s.create()
        assert await s.where() == ["n1", "n2", "n3"]
        status = (await s.set()).status
        assert (status.desiredNumberScheduled, status.currentNumberScheduled, status.numberReady) == (3, 3, 0)
        assert (status.numberUnavailable, status.updatedNumberScheduled) == (3, 3)
        await s.stage.play()
        daemon_set = await s.set()
        status = daemon_set.status
        assert (status.numberReady, status.numberAvailable, status.numberUnavailable) == (3, 3, 0)
        assert status.observedGeneration == daemon_set.metadata.generation == 1
        hash = (await s.revisions())[1].metadata.labels[HASH_LABEL]
        for pod in (await s.stage.pods()).values():
            assert pod.metadata.labels == {**LABELS, HASH_LABEL: hash, GENERATION_LABEL: "1"}
            assert pod.metadata.generateName == "logs-"
            assert {toleration.key for toleration in pod.spec.tolerations} >= {
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/unschedulable",
            }
        names = sorted(await s.stage.pods())
        events = await s.stage.events()
        assert sorted(events) == [("SuccessfulCreate", f"Created pod: {name}") for name in names]

    played(play)


def test_nodes_come_and_go() -> None:
    async def play(s: Scene) -> None:
        await s.create()
        assert await s.where() == []
        await s.nodes("n1", "n2")
        assert await s.where() == ["n1", "n2"]
        await s.stage.play()
        await s.nodes("n3", taints=("t:NoSchedule",))
        assert await s.where() == ["n1", "n2"]
        await s.taint("n3")
        assert await s.where() == ["n1", "n2", "n3"]
        await s.cluster.client.of(Node).delete("n3")
        assert await s.where() == ["n1", "n2"], "it was never bound, and never will be"
        await s.taint("n2", "NoExecute")
        await s.stage.play()
        assert await s.where() == ["n1"]
        assert (await s.set()).status.desiredNumberScheduled == 1

    played(play)


def test_labels_of_nodes_decide() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1", "n2")
        await s.create(spec={"nodeSelector": {"color": "blue"}})
        assert await s.where() == []
        await s.label("n1", color="blue")
        assert await s.where() == ["n1"]
        await s.stage.play()
        await s.label("n1", color="green")
        await s.stage.play()
        assert await s.where() == []
        await s.patch({"template": {"spec": {"nodeSelector": {"color": "green"}}}})
        assert await s.where() == ["n1"]
        await s.stage.play()

    played(play)


def test_a_pod_that_may_stay_is_misplaced() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1", "n2")
        await s.create()
        await s.stage.play()
        await s.taint("n2", "NoSchedule")
        status = (await s.set()).status
        assert (status.desiredNumberScheduled, status.numberMisscheduled) == (1, 1)
        await s.taint("n2")
        status = (await s.set()).status
        assert (status.desiredNumberScheduled, status.numberMisscheduled) == (2, 0)

    played(play)


async def test_heartbeats_of_nodes_cause_no_work() -> None:
    async with pod_cluster() as c, c.running(DaemonSetController.name) as manager:
        s = Scene(c, Stage(c))
        await s.nodes("n1", "n2")
        await s.create()
        await s.stage.play()
        await c.clock.settle()
        before = manager.runners[0].stats.reconciles
        for _ in range(5):
            await c.clock.advance(10)
            condition = {"type": "Ready", "status": "True", "reason": str(c.clock.now())}
            await c.client.of(Node).patch("n1", {"status": {"conditions": [condition]}}, subresource="status")
        await c.clock.settle()
        assert manager.runners[0].stats.reconciles == before


def test_pods_that_are_deleted_come_back() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1", "n2")
        await s.create()
        await s.stage.play()
        name = next(iter(await s.stage.pods()))
        await s.cluster.client.of(Pod).delete(name, NAMESPACE)
        await s.stage.play()
        assert await s.where() == ["n1", "n2"]
        assert name not in await s.stage.pods()

    played(play)


def test_failed_pods_are_replaced_ever_later() -> None:
    async def fail(s: Scene) -> str:
        name = next(iter(await s.stage.pods()))
        await s.stage.run(name)
        await s.stage.fail(name)
        return name

    async def play(s: Scene) -> None:
        await s.nodes("n1")
        await s.create()
        await s.stage.play()
        first = await fail(s)
        assert first not in await s.stage.pods()
        second = await fail(s)
        assert list(await s.stage.pods()) == [second], "it is left alone for a second"
        await s.cluster.clock.advance(0.9)
        assert list(await s.stage.pods()) == [second]
        await s.cluster.clock.advance(0.1)
        assert second not in await s.stage.pods()
        await s.stage.play()
        events = [event for event in await s.stage.events() if event[0] == "FailedDaemonPod"]
        assert events == [
            ("FailedDaemonPod", f"Found failed daemon pod default/{name} on node n1, will try to kill it")
            for name in (first, second)
        ]

    played(play)


def test_succeeded_pods_are_replaced_at_once() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1")
        await s.create()
        await s.stage.play()
        name = next(iter(await s.stage.pods()))
        await s.stage.fail(name, "Succeeded")
        await s.stage.play()
        assert name not in await s.stage.pods()
        expected = f"Found succeeded daemon pod default/{name} on node n1, will try to delete it"
        assert ("SucceededDaemonPod", expected) in await s.stage.events()

    played(play)


def test_a_rolling_update_goes_node_by_node_and_back() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1", "n2", "n3")
        await s.create()
        await s.stage.play()
        first = (await s.revisions())[1].metadata.name
        await s.use("two")
        leaving = [pod for pod in (await s.stage.pods()).values() if pod.metadata.deletionTimestamp]
        assert len(leaving) == 1
        status = (await s.set()).status
        assert (status.updatedNumberScheduled, status.observedGeneration) == (0, 2)
        await s.stage.end(leaving[0].metadata.name)
        assert (len(await s.where(image="one")), len(await s.where(image="two"))) == (2, 1)
        await s.stage.play()
        assert await s.where(image="two") == ["n1", "n2", "n3"]
        assert (await s.set()).status.updatedNumberScheduled == 3
        await s.use("one")
        await s.stage.play()
        assert await s.where(image="one") == ["n1", "n2", "n3"]
        revisions = await s.revisions()
        assert [revisions[number].metadata.name == first for number in (2, 3)] == [False, True]

    played(play)


def test_surge_puts_the_new_beside_the_old() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1", "n2", "n3")
        await s.create(surge=1, unavailable=0, min_ready=10)
        await s.stage.play()
        await s.cluster.clock.advance(10)
        await s.use("two")
        assert (await s.where(image="one"), len(await s.where(image="two"))) == (["n1", "n2", "n3"], 1)
        for _ in range(4):
            pods = (await s.stage.pods()).values()
            assert sum(pod.status.phase == "Running" and not pod.metadata.deletionTimestamp for pod in pods) >= 3
            await s.stage.play()
            await s.cluster.clock.advance(10)
        await s.stage.play()
        assert (await s.where(image="one"), await s.where(image="two")) == ([], ["n1", "n2", "n3"])

    played(play)


def test_on_delete_updates_what_somebody_deletes() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1", "n2")
        await s.create(strategy="OnDelete")
        await s.stage.play()
        await s.use("two")
        await s.stage.play()
        assert await s.where(image="two") == []
        assert len(await s.revisions()) == 2
        await s.cluster.client.of(Pod).delete(next(iter(await s.stage.pods())), NAMESPACE)
        await s.stage.play()
        assert len(await s.where(image="two")) == 1

    played(play)


def test_history_is_as_long_as_its_limit() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1")
        await s.create(limit=1)
        await s.stage.play()
        for image in ("two", "three", "four"):
            await s.use(image)
            await s.stage.play()
        assert list(await s.revisions()) == [3, 4]

    played(play)


def test_a_collision_of_names_is_counted() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1")
        await s.create()
        first = (await s.revisions())[1]
        await s.cluster.client.of(DaemonSet).delete("logs", NAMESPACE)
        revisions = s.cluster.client.of(ControllerRevision)
        await revisions.delete(first.metadata.name, NAMESPACE)
        revision = copy_of(first)
        revision.data, revision.metadata.labels, revision.metadata.ownerReferences = RawJSON(b'{"x":1}'), {}, []
        revision.metadata.resourceVersion = revision.metadata.uid = ""
        await revisions.create(revision)
        for name in await s.stage.pods():
            await s.stage.end(name)
        await s.create()
        await s.cluster.clock.advance(1)
        assert (await s.set()).status.collisionCount == 1
        assert await s.where() == ["n1"]
        await s.stage.play()

    played(play)


def test_two_revisions_of_one_template_become_one() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1")
        await s.create()
        await s.stage.play()
        double = copy_of((await s.revisions())[1])
        double.metadata.name, double.revision = "logs-double", 9
        double.metadata.labels[HASH_LABEL] = "double"
        double.metadata.resourceVersion = double.metadata.uid = ""
        await s.cluster.client.of(ControllerRevision).create(double)
        await s.cluster.clock.settle()
        assert list(await s.revisions()) == [1, 9], "what has an owner is not looked at before that one is"
        await s.patch({"minReadySeconds": 1})
        await s.cluster.clock.advance(1)
        assert [revision.metadata.name for revision in (await s.revisions()).values()] == ["logs-double"]
        assert [pod.metadata.labels[HASH_LABEL] for pod in (await s.stage.pods()).values()] == ["double"]

    played(play)


def test_ready_is_not_yet_available() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1")
        await s.create(min_ready=30)
        await s.stage.play()
        assert ((await s.set()).status.numberReady, (await s.set()).status.numberAvailable) == (1, 0)
        await s.cluster.clock.advance(30)
        assert (await s.set()).status.numberAvailable == 1

    played(play)


def test_more_nodes_than_one_burst() -> None:
    async def play(s: Scene) -> None:
        names = [f"n{at}" for at in range(BURST + 30)]
        await s.nodes(*names)
        await s.create()
        assert await s.where() == sorted(names)

    played(play)


def test_orphans_are_adopted_and_a_pod_without_its_label_is_let_go() -> None:
    async def play(s: Scene) -> None:
        await s.nodes("n1")
        await s.create()
        await s.stage.play()
        name = next(iter(await s.stage.pods()))
        pods = s.cluster.client.of(Pod)
        await pods.patch(name, {"metadata": {"labels": {"app": "other"}}}, NAMESPACE)
        remaining = await s.stage.pods()
        assert len(remaining) == 2
        assert remaining[name].metadata.ownerReferences == []
        await pods.patch(name, {"metadata": {"labels": LABELS}}, NAMESPACE)
        await s.stage.play()
        remaining = await s.stage.pods()
        assert [pod.metadata.ownerReferences[0].name for pod in remaining.values()] == ["logs"], "one of the two went"

    played(play)


def test_a_set_that_is_deleted_is_left_alone() -> None:
    async def play(s: Scene) -> None:
        await s.create(finalizers=["example.com/wait"])
        await s.cluster.client.of(DaemonSet).delete("logs", NAMESPACE)
        await s.nodes("n1")
        assert await s.where() == []

    played(play)
