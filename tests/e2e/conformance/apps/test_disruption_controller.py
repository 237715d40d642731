"""Conformance tests of sig-apps for the disruption controller. The first paragraph of a docstring is the official test
name."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Namespace, Pod
from sampan.api.types.meta_v1 import Condition, ObjectMeta
from sampan.api.types.policy_v1 import Eviction, PodDisruptionBudget
from sampan.machinery.client import PatchType, Selection
from sampan.machinery.copies import copy_of
from sampan.machinery.errors import NotFound, TooManyRequests
from tests.e2e.conformance.apps.replica_cluster import ReplicaCluster, run_scenario, template

LABELS = {"foo": "bar"}


def budget(name: str = "foo", namespace: str = "default", **spec: Any) -> PodDisruptionBudget:
    value = {"metadata": {"name": name, "namespace": namespace, "labels": LABELS}}
    return codec.from_value({**value, "spec": {"selector": {"matchLabels": LABELS}, **spec}}, PodDisruptionBudget)


async def make_pods(c: ReplicaCluster, count: int) -> None:
    for at in range(count):
        value = {"metadata": {"name": f"pod-{at}", "labels": LABELS}, "spec": template(LABELS)["spec"]}
        await c.create(codec.from_value(value, Pod), 0)
    await c.clock.advance(5)


async def evict(c: ReplicaCluster, name: str) -> None:
    eviction = Eviction(metadata=ObjectMeta(name=name, namespace="default"))
    await c.for_kind(Pod).create_subresource("eviction", name, eviction, "default")


def test_create_update_patch_delete() -> None:
    """[sig-apps] DisruptionController should create a PodDisruptionBudget"""

    async def scenario(c: ReplicaCluster) -> None:
        budgets = c.for_kind(PodDisruptionBudget)
        await c.create(budget(minAvailable="1%"))
        stored_budget = await c.get(PodDisruptionBudget, "foo")
        assert stored_budget.status.observedGeneration == stored_budget.metadata.generation
        changed = copy_of(stored_budget)
        changed.spec.minAvailable = "2%"
        await budgets.update(changed)
        stored_budget = await c.get(PodDisruptionBudget, "foo")
        assert stored_budget.spec.minAvailable == "2%"
        await budgets.patch("foo", {"spec": {"minAvailable": "3%"}}, "default", type=PatchType.MERGE)
        stored_budget = await c.get(PodDisruptionBudget, "foo")
        assert stored_budget.spec.minAvailable == "3%"
        assert stored_budget.status.observedGeneration == stored_budget.metadata.generation
        await budgets.delete("foo", "default")
        with pytest.raises(NotFound):
            await c.get(PodDisruptionBudget, "foo")

    run_scenario(scenario)


def test_list_and_delete_collection() -> None:
    """[sig-apps] DisruptionController Listing PodDisruptionBudgets for all namespaces should list and delete a
    collection of PodDisruptionBudgets"""

    async def scenario(c: ReplicaCluster) -> None:
        budgets = c.for_kind(PodDisruptionBudget)
        await c.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="other")))
        for name in ("foo", "foo2"):
            await budgets.create(budget(name, minAvailable="1%"))
        await budgets.create(budget("foo3", "other", minAvailable="1%"))
        ours = Selection(labels="foo=bar")
        assert len((await budgets.list(ours)).items) == 3
        await budgets.delete_collection(Selection(namespace="default", labels="foo=bar"))
        await c.clock.settle()
        assert [budget.metadata.name for budget in (await budgets.list(ours)).items] == ["foo3"]

    run_scenario(scenario)


def test_status_follows_pods() -> None:
    """[sig-apps] DisruptionController should observe PodDisruptionBudget status updated"""

    async def scenario(c: ReplicaCluster) -> None:
        await c.create(budget(minAvailable=1))
        await make_pods(c, 3)
        status = (await c.get(PodDisruptionBudget, "foo")).status
        assert (status.currentHealthy, status.expectedPods, status.disruptionsAllowed) == (3, 3, 2)

    run_scenario(scenario)


def test_update_and_patch_status() -> None:
    """[sig-apps] DisruptionController should update/patch PodDisruptionBudget status"""

    async def scenario(c: ReplicaCluster) -> None:
        budgets = c.for_kind(PodDisruptionBudget)
        await c.create(budget(minAvailable=1))
        await make_pods(c, 1)
        changed = copy_of(await c.get(PodDisruptionBudget, "foo"))
        changed.status.disruptedPods = {"pod-0": "2026-01-01T00:00:00Z"}
        mine = Condition(type="Mine", status="True", reason="R", lastTransitionTime="2026-01-01T00:00:00Z")
        changed.status.conditions.append(mine)
        updated = await budgets.update_status(changed)
        assert updated.status.disruptedPods == {"pod-0": "2026-01-01T00:00:00Z"}
        stored_budget = await c.get(PodDisruptionBudget, "foo")
        assert [condition.type for condition in stored_budget.status.conditions] == ["DisruptionAllowed", "Mine"]
        patched = await budgets.patch(
            "foo", {"status": {"disruptedPods": None}}, "default", type=PatchType.MERGE, subresource="status"
        )
        assert patched.status.disruptedPods == {}

    run_scenario(scenario)


def test_eviction_is_blocked_until_the_budget_allows_it() -> None:
    """[sig-apps] DisruptionController should block an eviction until the PDB is updated to allow it"""

    async def scenario(c: ReplicaCluster) -> None:
        budgets = c.for_kind(PodDisruptionBudget)
        await c.create(budget(minAvailable=3))
        await make_pods(c, 3)
        with pytest.raises(TooManyRequests) as refused:
            await evict(c, "pod-0")
        assert refused.value.has_cause("DisruptionBudget")
        await budgets.patch("foo", {"spec": {"minAvailable": 2}}, "default", type=PatchType.MERGE)
        await c.clock.settle()
        await evict(c, "pod-0")
        await budgets.patch("foo", {"spec": {"minAvailable": 3}}, "default", type=PatchType.MERGE)
        await c.clock.advance(2)
        with pytest.raises(TooManyRequests):
            await evict(c, "pod-1")
        await budgets.delete("foo", "default")
        await c.clock.settle()
        await evict(c, "pod-1")

    run_scenario(scenario)
