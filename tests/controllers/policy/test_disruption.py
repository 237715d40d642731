"""disruption-controller and evictions against a whole API server."""

import asyncio
from typing import Any

import pytest

from sampan.api.types.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from sampan.api.types.core_v1 import Container, Event, Pod, PodSpec, PodTemplateSpec, ServiceAccount
from sampan.api.types.meta_v1 import DeleteOptions, LabelSelector, ObjectMeta, OwnerReference
from sampan.api.types.policy_v1 import Eviction, PodDisruptionBudget, PodDisruptionBudgetSpec
from sampan.api.values import times
from sampan.controllers.policy.disruption import DisruptionController
from sampan.machinery import errors
from sampan.machinery.client import Selection
from sampan.machinery.copies import copy_of
from sampan.testing import builders
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster

NAME = DisruptionController.name
LABELS = {"app": "web"}
IN_DEFAULT = Selection(namespace="default")


def budget(name: str = "b", **spec: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels=LABELS), **spec),
    )


def pod(name: str, owner: OwnerReference | None = None) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", labels=LABELS, ownerReferences=[owner] if owner else [])
    return Pod(metadata=meta, spec=PodSpec(nodeName="node", containers=[Container(name="c", image="i")]))


async def prepare(c: Cluster) -> None:
    await c.client.for_kind(ServiceAccount).create(
        ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
    )


async def make_pods(c: Cluster, count: int, owner: OwnerReference | None = None, *, ready: int | None = None) -> None:
    pods = c.client.for_kind(Pod)
    for at in range(count):
        await pods.create(pod(f"p{at}", owner))
        await set_ready(c, f"p{at}", at < (count if ready is None else ready))


async def set_ready(c: Cluster, name: str, is_ready: bool) -> None:
    condition = {"type": "Ready", "status": "True" if is_ready else "False"}
    status = {"phase": "Running", "conditions": [condition]}
    await c.client.for_kind(Pod).patch(name, {"status": status}, "default", subresource="status")


async def make_set(c: Cluster, replicas: int) -> OwnerReference:
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=pod("x").spec)
    spec = ReplicaSetSpec(replicas=replicas, selector=LabelSelector(matchLabels=LABELS), template=template)
    replica_set = await c.client.for_kind(ReplicaSet).create(
        ReplicaSet(metadata=ObjectMeta(name="rs", namespace="default"), spec=spec)
    )
    return OwnerReference(
        apiVersion="apps/v1", kind="ReplicaSet", name="rs", uid=replica_set.metadata.uid, controller=True
    )


async def status_counts(c: Cluster, name: str = "b") -> tuple[int, int, int, int]:
    """disruptionsAllowed, currentHealthy, desiredHealthy and expectedPods of the budget."""
    status = (await c.client.for_kind(PodDisruptionBudget).get(name, "default")).status
    return status.disruptionsAllowed, status.currentHealthy, status.desiredHealthy, status.expectedPods


async def evict(c: Cluster, name: str, options: DeleteOptions | None = None) -> None:
    eviction = Eviction(metadata=ObjectMeta(name=name, namespace="default"), deleteOptions=options)
    await c.client.for_kind(Pod).create_subresource("eviction", name, eviction, "default")


async def events(c: Cluster) -> list[tuple[str, str, str]]:
    return [
        (event.type, event.reason, event.message) for event in (await c.client.for_kind(Event).list(IN_DEFAULT)).items
    ]


async def test_status_follows_the_readiness_of_pods() -> None:
    async with cluster() as c:
        await prepare(c)
        async with c.running(NAME):
            await c.client.for_kind(PodDisruptionBudget).create(budget(minAvailable=2))
            await c.clock.settle()
            assert await status_counts(c) == (0, 0, 2, 0)
            assert await events(c) == [("Normal", "NoPods", "No matching pods found")]
            await make_pods(c, 3)
            await c.clock.settle()
            assert await status_counts(c) == (1, 3, 2, 3)
            await set_ready(c, "p0", False)
            await c.clock.settle()
            assert await status_counts(c) == (0, 2, 2, 3)
        await check_second_run_writes_nothing(c, NAME)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"maxUnavailable": 1}, (0, 3, 4, 5)),
        ({"maxUnavailable": "40%"}, (0, 3, 3, 5)),
        ({"minAvailable": "40%"}, (1, 3, 2, 5)),
    ],
)
async def test_expected_pods_are_the_replicas_of_the_replicaset(
    spec: dict[str, Any], expected: tuple[int, ...]
) -> None:
    async with cluster() as c:
        await prepare(c)
        await make_pods(c, 3, await make_set(c, 5))
        await c.client.for_kind(PodDisruptionBudget).create(budget(**spec))
        async with c.running(NAME):
            assert await status_counts(c) == expected


async def test_expected_pods_are_the_replicas_of_the_owning_deployment() -> None:
    async with cluster() as c:
        await prepare(c)
        owner = await make_set(c, 2)
        deployment = await c.client.for_kind(Deployment).create(
            builders.deployment("d", replicas=7, labels=LABELS, namespace="default")
        )
        deployment_ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": deployment.metadata.uid}
        refs = {"metadata": {"ownerReferences": [{**deployment_ref, "controller": True}]}}
        await c.client.for_kind(ReplicaSet).patch("rs", refs, "default")
        await make_pods(c, 2, owner)
        await c.client.for_kind(PodDisruptionBudget).create(budget(maxUnavailable=1))
        async with c.running(NAME):
            assert await status_counts(c) == (0, 2, 6, 7)


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (("batch/v1", "Job"), "jobs.batch does not implement the scale subresource"),
        (("example.com/v1", "Boat"), 'no matches for kind "Boat" in version "example.com/v1"'),
        (("apps/v1", "StatefulSet"), 'found no controllers for pod "p0"'),
    ],
)
def test_unknown_scale_of_the_owner_allows_no_disruptions(owner: tuple[str, str], message: str) -> None:
    async def main() -> None:
        async with cluster() as c:
            await prepare(c)
            ref = OwnerReference(apiVersion=owner[0], kind=owner[1], name="x", uid="0-0", controller=True)
            await make_pods(c, 1, ref)
            await c.client.for_kind(PodDisruptionBudget).create(budget(maxUnavailable=1))
            async with c.running(NAME):
                await c.clock.advance(1)
            (condition,) = (await c.client.for_kind(PodDisruptionBudget).get("b", "default")).status.conditions
            assert (condition.status, condition.reason, condition.message) == ("False", "SyncFailed", message)
            text = f"Failed to calculate the number of expected pods: {message}"
            assert ("Warning", "CalculateExpectedPodCountFailed", text) in await events(c)
            with pytest.raises(errors.TooManyRequests) as rejected:
                await evict(c, "p0")
            start = "The disruption budget b"
            assert rejected.value.causes[0]["message"].startswith(start)

    asyncio.run(main())


async def test_pods_without_a_controller_are_reported() -> None:
    async with cluster() as c:
        await prepare(c)
        await make_pods(c, 1)
        await c.client.for_kind(PodDisruptionBudget).create(budget(maxUnavailable=1))
        async with c.running(NAME):
            await c.clock.settle()
        (event,) = {event[2] for event in await events(c) if event[1] == "UnmanagedPods"}
        assert event.startswith(
            "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{"
            "app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged."
        )
        assert await status_counts(c) == (0, 1, 0, 0)


async def test_two_budgets_for_a_pod_are_reported() -> None:
    async with cluster() as c:
        await prepare(c)
        for name in ("a", "b"):
            await c.client.for_kind(PodDisruptionBudget).create(budget(name, minAvailable=1))
        await make_pods(c, 1)
        async with c.running(NAME):
            await set_ready(c, "p0", False)
            await c.clock.settle()
        messages = {event[2] for event in await events(c) if event[1] == "MultiplePodDisruptionBudgets"}
        assert len(messages) == 1
        assert 'Pod "default"/"p0" matches multiple PodDisruptionBudgets.  Chose "' in messages.pop()


async def test_concurrent_evictions_never_exceed_the_budget() -> None:
    async with cluster() as c:
        await prepare(c)
        await make_pods(c, 50, await make_set(c, 50))
        await c.client.for_kind(PodDisruptionBudget).create(budget(minAvailable=43))
        async with c.running(NAME):
            await c.clock.settle()
            results = await asyncio.gather(*(evict(c, f"p{at}") for at in range(50)), return_exceptions=True)
            granted = [at for at, result in enumerate(results) if result is None]
            assert len(granted) == 7
            rejected = [result for result in results if result is not None]
            assert {type(result) for result in rejected} == {errors.TooManyRequests}
            pods = (await c.client.for_kind(Pod).list(IN_DEFAULT)).items
            assert sum(pod.metadata.deletionTimestamp is None for pod in pods) == 43
            await c.clock.settle()
            assert await status_counts(c) == (0, 43, 43, 50)
            status = (await c.client.for_kind(PodDisruptionBudget).get("b", "default")).status
            assert status.disruptedPods == {}
            remaining = next(at for at in range(50) if at not in granted)
            with pytest.raises(errors.TooManyRequests) as last:
                await evict(c, f"p{remaining}")
            assert last.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
            assert last.value.causes == [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b needs 43 healthy pods and has 43 currently",
                }
            ]


@pytest.mark.parametrize(("policy", "is_evicted"), [("IfHealthyBudget", False), ("AlwaysAllow", True)])
async def test_unhealthy_pod_eviction_policy(policy: str, is_evicted: bool) -> None:
    async with cluster() as c:
        await prepare(c)
        await make_pods(c, 3, ready=1)
        await c.client.for_kind(PodDisruptionBudget).create(budget(minAvailable=2, unhealthyPodEvictionPolicy=policy))
        async with c.running(NAME):
            await c.clock.settle()
            if is_evicted:
                await evict(c, "p2")
            else:
                with pytest.raises(errors.TooManyRequests):
                    await evict(c, "p2")
            with pytest.raises(errors.TooManyRequests):
                await evict(c, "p0")


async def test_granted_eviction_expires_if_the_pod_is_not_deleted() -> None:
    async with cluster() as c:
        await prepare(c)
        await make_pods(c, 2)
        budgets = c.client.for_kind(PodDisruptionBudget)
        await budgets.create(budget(minAvailable=1))
        async with c.running(NAME):
            await c.clock.settle()
            assert await status_counts(c) == (1, 2, 1, 2)
            stored_budget = await budgets.get("b", "default")
            changed = copy_of(stored_budget)
            changed.status.disruptedPods = {"p0": times.format_time(c.clock.now())}
            changed.status.disruptionsAllowed = 0
            await budgets.update_status(changed)
            await c.clock.advance(119)
            assert await status_counts(c) == (0, 1, 1, 2)
            await c.clock.advance(2)
            assert await status_counts(c) == (1, 2, 1, 2)
            text = "Pod was expected by PDB default/default to be deleted but it wasn't"
            assert ("Warning", "NotDeleted", text) in await events(c)


async def test_stale_disruption_target_condition_is_cleared() -> None:
    async with cluster() as c:
        await prepare(c)
        await make_pods(c, 1)
        pods = c.client.for_kind(Pod)
        since = times.format_time(c.clock.now())
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "x", "lastTransitionTime": since}
        await pods.patch("p0", {"status": {"conditions": [condition]}}, "default", subresource="status")
        async with c.running(NAME):
            await c.clock.advance(119)
            assert _target(await pods.get("p0", "default")) == "True"
            await c.clock.advance(2)
            assert _target(await pods.get("p0", "default")) == "False"
        await check_second_run_writes_nothing(c, NAME)


def _target(pod: Pod) -> str:
    return next(condition.status for condition in pod.status.conditions if condition.type == "DisruptionTarget")
