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
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.daemonset.objects import LABELS, daemon_set, node
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, FakeKubelet


@dataclass(slots=True)
class DaemonSetCluster:
    cluster: Cluster
    kubelet: FakeKubelet

    async def nodes(self, *names: str, **fields: Any) -> None:
        """Create ready nodes, without the taint that the server gives to new nodes."""
        for name in names:
            new_node = node(name, **fields)
            nodes = self.cluster.client.for_kind(Node)
            await nodes.create(new_node)
            taints = json.to_value(new_node)["spec"].get("taints")
            await nodes.patch(name, {"spec": {"taints": taints}}, type=PatchType.MERGE)
        await self.cluster.clock.settle()

    async def create(self, **fields: Any) -> DaemonSet:
        created_daemon_set = await self.cluster.client.for_kind(DaemonSet).create(daemon_set(**fields))
        await self.cluster.clock.settle()
        return created_daemon_set

    async def set(self) -> DaemonSet:
        await self.cluster.clock.settle()
        return await self.cluster.client.for_kind(DaemonSet).get("logs", NAMESPACE)

    async def patch(self, spec: dict[str, Any]) -> None:
        await self.cluster.client.for_kind(DaemonSet).patch("logs", {"spec": spec}, NAMESPACE)
        await self.cluster.clock.settle()

    async def set_image(self, image: str) -> None:
        await self.patch({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}})

    async def label(self, name: str, **labels: str | None) -> None:
        await self.cluster.client.for_kind(Node).patch(name, {"metadata": {"labels": labels}})
        await self.cluster.clock.settle()

    async def taint(self, name: str, *taints: str) -> None:
        spec = {"taints": [{"key": "t", "effect": effect} for effect in taints] or None}
        await self.cluster.client.for_kind(Node).patch(name, {"spec": spec}, type=PatchType.MERGE)
        await self.cluster.clock.settle()

    async def nodes_with_pod(self, *, image: str = "") -> list[str]:
        """The nodes of pods without deletion timestamp, of all pods or of those with `image`."""
        names = [
            target_node(pod)
            for pod in (await self.kubelet.pods()).values()
            if pod.metadata.deletionTimestamp is None and (pod.spec.containers or [])[0].image in (image or "one two")
        ]
        return sorted(names)

    async def revisions(self) -> dict[int, ControllerRevision]:
        revisions = (await self.cluster.client.for_kind(ControllerRevision).list()).items
        return {revision.revision: revision for revision in sorted(revisions, key=lambda revision: revision.revision)}


def run_scenario(scenario: Callable[[DaemonSetCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with daemon_set_cluster() as s:
            await scenario(s)

    asyncio.run(main())


@asynccontextmanager
async def daemon_set_cluster() -> AsyncIterator[DaemonSetCluster]:
    async with pod_cluster() as c:
        async with c.running(DaemonSetController.name):
            yield DaemonSetCluster(c, FakeKubelet(c))
        await check_second_run_writes_nothing(c, DaemonSetController.name)


def test_pod_is_created_on_every_node() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1", "n2", "n3")
        await s.create()
        assert await s.nodes_with_pod() == ["n1", "n2", "n3"]
        status = (await s.set()).status
        assert (status.desiredNumberScheduled, status.currentNumberScheduled, status.numberReady) == (3, 3, 0)
        assert (status.numberUnavailable, status.updatedNumberScheduled) == (3, 3)
        await s.kubelet.run_all()
        daemon_set = await s.set()
        status = daemon_set.status
        assert (status.numberReady, status.numberAvailable, status.numberUnavailable) == (3, 3, 0)
        assert status.observedGeneration == daemon_set.metadata.generation == 1
        hash = (await s.revisions())[1].metadata.labels[HASH_LABEL]
        for pod in (await s.kubelet.pods()).values():
            assert pod.metadata.labels == {**LABELS, HASH_LABEL: hash, GENERATION_LABEL: "1"}
            assert pod.metadata.generateName == "logs-"
            assert {toleration.key for toleration in pod.spec.tolerations} >= {
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/unschedulable",
            }
        names = sorted(await s.kubelet.pods())
        events = await s.kubelet.events()
        assert sorted(events) == [("SuccessfulCreate", f"Created pod: {name}") for name in names]

    run_scenario(scenario)


def test_pods_follow_added_tainted_and_deleted_nodes() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.create()
        assert await s.nodes_with_pod() == []
        await s.nodes("n1", "n2")
        assert await s.nodes_with_pod() == ["n1", "n2"]
        await s.kubelet.run_all()
        await s.nodes("n3", taints=("t:NoSchedule",))
        assert await s.nodes_with_pod() == ["n1", "n2"]
        await s.taint("n3")
        assert await s.nodes_with_pod() == ["n1", "n2", "n3"]
        await s.cluster.client.for_kind(Node).delete("n3")
        assert await s.nodes_with_pod() == ["n1", "n2"], "the unbound pod of a deleted node is deleted"
        await s.taint("n2", "NoExecute")
        await s.kubelet.run_all()
        assert await s.nodes_with_pod() == ["n1"]
        assert (await s.set()).status.desiredNumberScheduled == 1

    run_scenario(scenario)


def test_node_selector_follows_changed_node_labels() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1", "n2")
        await s.create(spec={"nodeSelector": {"color": "blue"}})
        assert await s.nodes_with_pod() == []
        await s.label("n1", color="blue")
        assert await s.nodes_with_pod() == ["n1"]
        await s.kubelet.run_all()
        await s.label("n1", color="green")
        await s.kubelet.run_all()
        assert await s.nodes_with_pod() == []
        await s.patch({"template": {"spec": {"nodeSelector": {"color": "green"}}}})
        assert await s.nodes_with_pod() == ["n1"]
        await s.kubelet.run_all()

    run_scenario(scenario)


def test_pod_on_a_no_schedule_node_is_misscheduled() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1", "n2")
        await s.create()
        await s.kubelet.run_all()
        await s.taint("n2", "NoSchedule")
        status = (await s.set()).status
        assert (status.desiredNumberScheduled, status.numberMisscheduled) == (1, 1)
        await s.taint("n2")
        status = (await s.set()).status
        assert (status.desiredNumberScheduled, status.numberMisscheduled) == (2, 0)

    run_scenario(scenario)


async def test_node_heartbeats_cause_no_reconciles() -> None:
    async with pod_cluster() as c, c.running(DaemonSetController.name) as manager:
        s = DaemonSetCluster(c, FakeKubelet(c))
        await s.nodes("n1", "n2")
        await s.create()
        await s.kubelet.run_all()
        await c.clock.settle()
        before = manager.runners[0].stats.reconciles
        for _ in range(5):
            await c.clock.advance(10)
            condition = {"type": "Ready", "status": "True", "reason": str(c.clock.now())}
            await c.client.for_kind(Node).patch("n1", {"status": {"conditions": [condition]}}, subresource="status")
        await c.clock.settle()
        assert manager.runners[0].stats.reconciles == before


def test_deleted_pods_are_recreated() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1", "n2")
        await s.create()
        await s.kubelet.run_all()
        name = next(iter(await s.kubelet.pods()))
        await s.cluster.client.for_kind(Pod).delete(name, NAMESPACE)
        await s.kubelet.run_all()
        assert await s.nodes_with_pod() == ["n1", "n2"]
        assert name not in await s.kubelet.pods()

    run_scenario(scenario)


def test_failed_pods_are_replaced_with_back_off() -> None:
    async def fail(s: DaemonSetCluster) -> str:
        name = next(iter(await s.kubelet.pods()))
        await s.kubelet.run(name)
        await s.kubelet.fail(name)
        return name

    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1")
        await s.create()
        await s.kubelet.run_all()
        first = await fail(s)
        assert first not in await s.kubelet.pods()
        second = await fail(s)
        assert list(await s.kubelet.pods()) == [second], "the second failed pod is replaced after a second"
        await s.cluster.clock.advance(0.9)
        assert list(await s.kubelet.pods()) == [second]
        await s.cluster.clock.advance(0.1)
        assert second not in await s.kubelet.pods()
        await s.kubelet.run_all()
        events = [event for event in await s.kubelet.events() if event[0] == "FailedDaemonPod"]
        assert events == [
            ("FailedDaemonPod", f"Found failed daemon pod default/{name} on node n1, will try to kill it")
            for name in (first, second)
        ]

    run_scenario(scenario)


def test_succeeded_pods_are_replaced_immediately() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1")
        await s.create()
        await s.kubelet.run_all()
        name = next(iter(await s.kubelet.pods()))
        await s.kubelet.fail(name, "Succeeded")
        await s.kubelet.run_all()
        assert name not in await s.kubelet.pods()
        expected = f"Found succeeded daemon pod default/{name} on node n1, will try to delete it"
        assert ("SucceededDaemonPod", expected) in await s.kubelet.events()

    run_scenario(scenario)


def test_rolling_update_and_rollback_replace_pods_node_by_node() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1", "n2", "n3")
        await s.create()
        await s.kubelet.run_all()
        first = (await s.revisions())[1].metadata.name
        await s.set_image("two")
        deleted = [pod for pod in (await s.kubelet.pods()).values() if pod.metadata.deletionTimestamp]
        assert len(deleted) == 1
        status = (await s.set()).status
        assert (status.updatedNumberScheduled, status.observedGeneration) == (0, 2)
        await s.kubelet.end(deleted[0].metadata.name)
        assert (len(await s.nodes_with_pod(image="one")), len(await s.nodes_with_pod(image="two"))) == (2, 1)
        await s.kubelet.run_all()
        assert await s.nodes_with_pod(image="two") == ["n1", "n2", "n3"]
        assert (await s.set()).status.updatedNumberScheduled == 3
        await s.set_image("one")
        await s.kubelet.run_all()
        assert await s.nodes_with_pod(image="one") == ["n1", "n2", "n3"]
        revisions = await s.revisions()
        assert [revisions[number].metadata.name == first for number in (2, 3)] == [False, True]

    run_scenario(scenario)


def test_max_surge_runs_new_pods_beside_old_pods() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1", "n2", "n3")
        await s.create(surge=1, unavailable=0, min_ready=10)
        await s.kubelet.run_all()
        await s.cluster.clock.advance(10)
        await s.set_image("two")
        assert (await s.nodes_with_pod(image="one"), len(await s.nodes_with_pod(image="two"))) == (
            ["n1", "n2", "n3"],
            1,
        )
        for _ in range(4):
            pods = (await s.kubelet.pods()).values()
            assert sum(pod.status.phase == "Running" and not pod.metadata.deletionTimestamp for pod in pods) >= 3
            await s.kubelet.run_all()
            await s.cluster.clock.advance(10)
        await s.kubelet.run_all()
        assert (await s.nodes_with_pod(image="one"), await s.nodes_with_pod(image="two")) == ([], ["n1", "n2", "n3"])

    run_scenario(scenario)


def test_on_delete_strategy_updates_only_deleted_pods() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1", "n2")
        await s.create(strategy="OnDelete")
        await s.kubelet.run_all()
        await s.set_image("two")
        await s.kubelet.run_all()
        assert await s.nodes_with_pod(image="two") == []
        assert len(await s.revisions()) == 2
        await s.cluster.client.for_kind(Pod).delete(next(iter(await s.kubelet.pods())), NAMESPACE)
        await s.kubelet.run_all()
        assert len(await s.nodes_with_pod(image="two")) == 1

    run_scenario(scenario)


def test_revisions_are_pruned_to_the_history_limit() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1")
        await s.create(limit=1)
        await s.kubelet.run_all()
        for image in ("two", "three", "four"):
            await s.set_image(image)
            await s.kubelet.run_all()
        assert list(await s.revisions()) == [3, 4]

    run_scenario(scenario)


def test_revision_name_collision_is_counted() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1")
        await s.create()
        first = (await s.revisions())[1]
        await s.cluster.client.for_kind(DaemonSet).delete("logs", NAMESPACE)
        revisions = s.cluster.client.for_kind(ControllerRevision)
        await revisions.delete(first.metadata.name, NAMESPACE)
        revision = copy_of(first)
        revision.data, revision.metadata.labels, revision.metadata.ownerReferences = RawJSON(b'{"x":1}'), {}, []
        revision.metadata.resourceVersion = revision.metadata.uid = ""
        await revisions.create(revision)
        for name in await s.kubelet.pods():
            await s.kubelet.end(name)
        await s.create()
        await s.cluster.clock.advance(1)
        assert (await s.set()).status.collisionCount == 1
        assert await s.nodes_with_pod() == ["n1"]
        await s.kubelet.run_all()

    run_scenario(scenario)


def test_duplicate_revisions_of_a_template_are_merged() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1")
        await s.create()
        await s.kubelet.run_all()
        double = copy_of((await s.revisions())[1])
        double.metadata.name, double.revision = "logs-double", 9
        double.metadata.labels[HASH_LABEL] = "double"
        double.metadata.resourceVersion = double.metadata.uid = ""
        await s.cluster.client.for_kind(ControllerRevision).create(double)
        await s.cluster.clock.settle()
        assert list(await s.revisions()) == [1, 9], "an owned revision causes no reconcile"
        await s.patch({"minReadySeconds": 1})
        await s.cluster.clock.advance(1)
        assert [revision.metadata.name for revision in (await s.revisions()).values()] == ["logs-double"]
        assert [pod.metadata.labels[HASH_LABEL] for pod in (await s.kubelet.pods()).values()] == ["double"]

    run_scenario(scenario)


def test_pod_is_available_after_min_ready_seconds() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1")
        await s.create(min_ready=30)
        await s.kubelet.run_all()
        assert ((await s.set()).status.numberReady, (await s.set()).status.numberAvailable) == (1, 0)
        await s.cluster.clock.advance(30)
        assert (await s.set()).status.numberAvailable == 1

    run_scenario(scenario)


def test_more_nodes_than_one_burst_all_get_pods() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        names = [f"n{at}" for at in range(BURST + 30)]
        await s.nodes(*names)
        await s.create()
        assert await s.nodes_with_pod() == sorted(names)

    run_scenario(scenario)


def test_orphans_are_adopted_and_relabelled_pods_released() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.nodes("n1")
        await s.create()
        await s.kubelet.run_all()
        name = next(iter(await s.kubelet.pods()))
        pods = s.cluster.client.for_kind(Pod)
        await pods.patch(name, {"metadata": {"labels": {"app": "other"}}}, NAMESPACE)
        remaining = await s.kubelet.pods()
        assert len(remaining) == 2
        assert remaining[name].metadata.ownerReferences == []
        await pods.patch(name, {"metadata": {"labels": LABELS}}, NAMESPACE)
        await s.kubelet.run_all()
        remaining = await s.kubelet.pods()
        assert [pod.metadata.ownerReferences[0].name for pod in remaining.values()] == ["logs"], (
            "one of the two pods is deleted"
        )

    run_scenario(scenario)


def test_deleted_daemonset_creates_no_pods() -> None:
    async def scenario(s: DaemonSetCluster) -> None:
        await s.create(finalizers=["example.com/wait"])
        await s.cluster.client.for_kind(DaemonSet).delete("logs", NAMESPACE)
        await s.nodes("n1")
        assert await s.nodes_with_pod() == []

    run_scenario(scenario)
