"""replicaset-controller with the real API server; its plan and status as pure functions."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.semantics.owners import controller_of
from sampan.api.types.apps_v1 import ReplicaSet, ReplicaSetCondition
from sampan.api.types.core_v1 import Event, Pod, ReplicationController, ReplicationControllerStatus, ResourceQuota
from sampan.controllers.ownership.pods import BURST
from sampan.controllers.workloads.replicaset import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    ReplicaSetController,
    next_sync_s,
    plan,
    status_of,
)
from sampan.machinery.client.options import DeleteParameters
from sampan.machinery.control_loop import controller
from sampan.machinery.copies import copy_of
from sampan.testing.faults import Fault, FaultEffect, FaultInjector, FaultRule
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, names_of
from tests.controllers.ownership.objects import NOW, owner, pod
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.scheduler_and_kubelet import active_of, bind, end, pods_of, run, set_state, settle_pods

NAME = ReplicaSetController.name


async def create(c: Cluster, replicas: int, name: str = "web", **spec: Any) -> ReplicaSet:
    new = owner(name, uid="")
    new.spec.replicas = replicas
    for field, value in spec.items():
        setattr(new.spec, field, value)
    return await c.client.for_kind(ReplicaSet).create(new)


async def get(c: Cluster, name: str = "web") -> ReplicaSet:
    await c.clock.settle()
    return await c.client.for_kind(ReplicaSet).get(name, "default")


async def scale(c: Cluster, replicas: int, name: str = "web") -> None:
    await c.client.for_kind(ReplicaSet).patch(name, {"spec": {"replicas": replicas}}, "default")


async def recorded_events(c: Cluster) -> list[tuple[str, str, str]]:
    await c.clock.settle()
    events = (await c.client.for_kind(Event).list_all()).items
    return [(event.type, event.reason, event.message) for event in events if event.source.component == NAME]


async def test_debug_log_has_the_need_and_the_action_of_a_reconcile(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=controller.__name__)
    async with pod_cluster() as c, c.running(NAME):
        await create(c, 2)
        await settle_pods(c)
        await scale(c, 1)
        await c.clock.settle()
        before = len(caplog.records)
        await c.client.for_kind(ReplicaSet).patch("web", {"metadata": {"labels": {"a": "b"}}}, "default")
        await c.clock.settle()
        idle = caplog.records[before:]
    lines = [record.getMessage() for record in caplog.get_records("call")]
    created = f"{NAME}: default/web: need 2 pods, have 0: create 2; POST /api/v1/namespaces/default/pods (2 times)"
    assert any(line.startswith(created) for line in lines)
    assert any("need 1 pods, have 2: delete 1; DELETE /api/v1/namespaces/default/pods/web-" in line for line in lines)
    assert idle == [], "a reconcile without writes has no line"


async def test_pods_are_created_counted_and_replaced() -> None:
    async with pod_cluster() as c, c.running(NAME):
        replica_set = await create(c, 3)
        pods = await pods_of(c)
        assert len(pods) == 3
        assert all(pod.metadata.name.startswith("web-") for pod in pods)
        references = [controller_of(pod) for pod in pods]
        assert {reference.uid for reference in references if reference} == {replica_set.metadata.uid}
        status = (await get(c)).status
        assert (status.replicas, status.fullyLabeledReplicas, status.readyReplicas) == (3, 3, 0)
        assert (status.observedGeneration, status.terminatingReplicas) == (1, 0)
        await settle_pods(c)
        assert (await get(c)).status.availableReplicas == 3

        await c.client.for_kind(Pod).delete(pods[0].metadata.name, "default")
        assert len(await pods_of(c)) == 4
        status = (await get(c)).status
        assert (status.replicas, status.readyReplicas, status.terminatingReplicas) == (3, 2, 1)
        await settle_pods(c)
        status = (await get(c)).status
        assert (status.replicas, status.readyReplicas, status.terminatingReplicas) == (3, 3, 0)
        created = [message for _, reason, message in await recorded_events(c) if reason == "SuccessfulCreate"]
        assert sorted(created)[:1] == [f"Created pod: {min(names_of([*pods, *await pods_of(c)]))}"]
        assert len(created) == 4


async def test_the_second_run_writes_nothing() -> None:
    async with pod_cluster() as c:
        async with c.running(NAME):
            await create(c, 3)
            await create(c, 0, "empty")
            await settle_pods(c)
        await check_second_run_writes_nothing(c, NAME)


async def test_three_pods_become_ready_in_at_most_9_writes() -> None:
    """Each of three pods is written twice, and the status of the ReplicaSet at most three times."""
    async with pod_cluster() as c, c.running(NAME):
        created = await create(c, 3)
        await pods_of(c)
        assert int((await get(c)).metadata.resourceVersion) > int(created.metadata.resourceVersion)
        before = await c.revision()
        await settle_pods(c)
        writes = await c.revision() - before
        assert writes <= 2 * 3 + 3


async def test_scale_down_deletes_pending_pods_then_unready_pods_first() -> None:
    async with pod_cluster() as c, c.running(NAME):
        await create(c, 4)
        waits, runs, *ready = await pods_of(c)
        for pod in ready:
            await run(c, pod)
        await bind(c, runs)
        await set_state(c, runs, "Running", is_ready=False)
        await scale(c, 3)
        assert waits.metadata.name not in names_of(await pods_of(c))
        await scale(c, 2)
        assert names_of(await active_of(c)) == names_of(ready)
        assert ("Normal", "SuccessfulDelete", f"Deleted pod: {waits.metadata.name}") in await recorded_events(c)
        await scale(c, 0)
        assert await active_of(c) == []
        await settle_pods(c)
        status = (await get(c)).status
        assert (status.replicas, status.terminatingReplicas, status.observedGeneration) == (0, 0, 4)


async def test_failed_pod_is_replaced_but_not_deleted() -> None:
    async with pod_cluster() as c, c.running(NAME):
        await create(c, 1)
        (pod,) = await pods_of(c)
        await bind(c, pod)
        await set_state(c, pod, "Failed", is_ready=False)
        pods = await pods_of(c)
        assert len(pods) == 2
        assert pod.metadata.name in names_of(pods)
        assert (await get(c)).status.replicas == 1


async def test_orphans_are_adopted_and_relabelled_pods_released() -> None:
    async with pod_cluster() as c, c.running(NAME):
        new = owner().spec.template
        orphan = Pod(spec=new.spec)
        orphan.metadata.name, orphan.metadata.namespace, orphan.metadata.labels = (
            "orphan",
            "default",
            {"app": "web"},
        )
        await c.client.for_kind(Pod).create(orphan)
        replica_set = await create(c, 2)
        assert len(await pods_of(c)) == 2
        adopted = await c.client.for_kind(Pod).get("orphan", "default")
        reference = controller_of(adopted)
        assert reference is not None
        assert reference.uid == replica_set.metadata.uid

        await c.client.for_kind(Pod).patch("orphan", {"metadata": {"labels": {"app": "x"}}}, "default")
        assert len(await pods_of(c)) == 3
        assert controller_of(await c.client.for_kind(Pod).get("orphan", "default")) is None
        await c.client.for_kind(Pod).patch("orphan", {"metadata": {"labels": {"app": "web"}}}, "default")
        assert len(await pods_of(c)) == 2


async def test_deleted_replicaset_creates_no_pods() -> None:
    async with pod_cluster() as c, c.running(NAME):
        replica_set = copy_of(await create(c, 1))
        await c.clock.settle()
        replica_set = copy_of(await get(c))
        replica_set.metadata.finalizers = ["a.b/c"]
        await c.client.for_kind(ReplicaSet).update(replica_set)
        await c.client.for_kind(ReplicaSet).delete("web", "default", options=DeleteParameters(propagation="Background"))
        (pod,) = await pods_of(c)
        await end(c, pod)
        assert await pods_of(c) == []
        assert (await get(c)).status.replicas == 0


async def test_pod_is_available_after_min_ready_seconds() -> None:
    async with pod_cluster() as c, c.running(NAME):
        await create(c, 1, minReadySeconds=30)
        await settle_pods(c)
        status = (await get(c)).status
        assert (status.readyReplicas, status.availableReplicas) == (1, 0)
        await c.clock.advance(29)
        assert (await get(c)).status.availableReplicas == 0
        await c.clock.advance(1)
        assert (await get(c)).status.availableReplicas == 1


async def test_replica_failure_condition_is_set_until_pods_can_be_created() -> None:
    async with pod_cluster() as c, c.running(NAME):
        value = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}}
        quotas = c.client.for_kind(ResourceQuota)
        quota = copy_of(await quotas.create(codec.from_value(value, ResourceQuota)))
        quota.status.hard, quota.status.used = {"pods": "2"}, {"pods": "0"}
        quota = await quotas.update_status(quota)
        await create(c, 9)
        pods = await pods_of(c)
        assert len(pods) == 2
        status = (await get(c)).status
        (condition,) = status.conditions
        assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
        assert "exceeded quota: q, requested: pods=1" in condition.message
        assert status.replicas in (1, 2)
        failures = [event for event in await recorded_events(c) if event[1] == "FailedCreate"]
        assert failures[0][0] == "Warning"
        assert failures[0][2].startswith('Error creating: pods "web-')

        await quotas.delete("q", "default")
        await c.clock.advance(60)
        assert len(await pods_of(c)) == 9
        assert (await get(c)).status.conditions == []


async def test_slow_start_limits_rejected_creations() -> None:
    """Of 500 pods that would all be rejected, one is tried at first, and one after the status was written."""
    async with pod_cluster() as c, c.running(NAME):
        value = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "0"}}}
        quota = copy_of(await c.client.for_kind(ResourceQuota).create(codec.from_value(value, ResourceQuota)))
        quota.status.hard, quota.status.used = {"pods": "0"}, {"pods": "0"}
        await c.client.for_kind(ResourceQuota).update_status(quota)
        await create(c, 500)
        await c.clock.settle()
        tried = [event for event in (await c.client.for_kind(Event).list_all()).items if event.reason == "FailedCreate"]
        assert sum(event.count for event in tried) <= 2


async def test_template_change_affects_only_new_pods() -> None:
    async with pod_cluster() as c, c.running(NAME):
        await create(c, 2)
        before = names_of(await pods_of(c))
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
        await c.client.for_kind(ReplicaSet).patch("web", patch, "default")
        pods = await pods_of(c)
        assert names_of(pods) == before
        await end(c, pods[0])
        images = sorted(container.image for pod in await pods_of(c) for container in pod.spec.containers or ())
        assert images == ["i", "other"]


@pytest.mark.parametrize(
    ("active", "replicas", "creations", "deletions"),
    [(0, 0, 0, 0), (3, 3, 0, 0), (1, 3, 2, 0), (3, 1, 0, 2), (0, 2 * BURST, BURST, 0), (BURST + 9, 0, 0, BURST)],
)
def test_planned_creations_and_deletions(active: int, replicas: int, creations: int, deletions: int) -> None:
    pods = [pod(f"p{at}") for at in range(active)]
    planned = plan(pods, replicas, lambda: (), NOW)
    assert (planned.creations, len(planned.deletions)) == (creations, deletions)


def test_pending_pod_is_deleted_before_ready_pod() -> None:
    pods = [pod("ready", node="n", ready_for_s=9), pod("waits", phase="Pending")]
    assert [deleted.metadata.name for deleted in plan(pods, 1, lambda: (), NOW).deletions] == ["waits"]


def replica_set_with_status(**status: Any) -> ReplicaSet:
    replica_set = owner(generation=4)
    replica_set.spec.replicas, replica_set.spec.minReadySeconds = 3, 5
    for name, value in status.items():
        setattr(replica_set.status, name, value)
    return replica_set


PODS = [
    pod("available", ready_for_s=5),
    pod("ready", ready_for_s=4),
    pod("runs"),
    pod("other", labels={"app": "web", "x": "y"}),
    pod("not-all-labels", labels={}),
]


def test_status_counts_and_next_sync() -> None:
    status = status_of(REPLICA_SET, replica_set_with_status(), PODS, 2, None, NOW)
    assert (status.replicas, status.fullyLabeledReplicas, status.readyReplicas, status.availableReplicas) == (
        5,
        4,
        2,
        1,
    )
    assert (status.terminatingReplicas, status.observedGeneration, status.conditions) == (2, 4, [])
    assert next_sync_s(PODS, 5, NOW) == 1
    assert next_sync_s(PODS, 0, NOW) is None


def test_a_replication_controller_counts_no_terminating_pods() -> None:
    value = {"spec": {"template": {"metadata": {"labels": {"app": "web"}}}, "minReadySeconds": 5}}
    controller = codec.from_value(value, ReplicationController)
    status = status_of(REPLICATION_CONTROLLER, controller, PODS, 2, None, NOW)
    expected = ReplicationControllerStatus(
        replicas=5, fullyLabeledReplicas=4, readyReplicas=2, availableReplicas=1, observedGeneration=0
    )
    assert status == expected


FAILED = ReplicaSetCondition(
    type="ReplicaFailure",
    status="True",
    lastTransitionTime="2025-01-01T00:00:00Z",
    reason="FailedCreate",
    message="old",
)
OTHER = ReplicaSetCondition(type="Other", status="True")


@pytest.mark.parametrize(
    ("present", "active", "failure", "expected"),
    [
        pytest.param([], [], None, [], id="no failure"),
        pytest.param([OTHER], [], "no", [("Other", ""), ("ReplicaFailure", "FailedCreate: no")], id="cannot create"),
        pytest.param(
            [], PODS, "no", [("ReplicaFailure", "FailedDelete: unable to delete pods: no")], id="cannot delete"
        ),
        pytest.param([FAILED], [], "no", [("ReplicaFailure", "FailedCreate: old")], id="already reported"),
        pytest.param([FAILED, OTHER], [], None, [("Other", "")], id="recovered"),
    ],
)
def test_replica_failure_condition(
    present: list[ReplicaSetCondition], active: list[Pod], failure: str | None, expected: list[tuple[str, str]]
) -> None:
    status = status_of(
        REPLICA_SET,
        replica_set_with_status(conditions=present),
        active,
        0,
        ValueError(failure) if failure else None,
        NOW,
    )
    summary = [
        (condition.type, f"{condition.reason}: {condition.message}" if condition.reason else "")
        for condition in status.conditions
    ]
    assert summary == expected


@asynccontextmanager
async def rejected_deletions(c: Cluster, status: int, count: int | None = None) -> AsyncIterator[Fault]:
    """Respond to the deletion of pods, by any user, with an error."""
    injector = FaultInjector(pipeline=c.server.pipeline, scheme=c.server.scheme, on_loop=lambda call: call())
    rule = FaultRule(verb="delete", resource="pods", user="*", count=count)
    try:
        with injector.make_fault(rule, FaultEffect(error=status, message="denied by a test")) as fault:
            yield fault
    finally:
        c.server.pipeline.use_interceptor(None)


async def test_failed_deletion_does_not_block_the_next_one() -> None:
    """The expectation of a deletion that failed is dropped at once, not after its expiry of five minutes."""
    async with pod_cluster() as c, c.running(NAME):
        await create(c, 2)
        await pods_of(c)
        async with rejected_deletions(c, 500, count=1) as fault:
            await scale(c, 1)
            await c.clock.settle()
            await c.clock.advance(5)  # longer than the backoff
            assert fault.hits == 1
            assert len(await active_of(c)) == 1


async def test_failed_deletions_are_reported_in_the_status_and_retried() -> None:
    async with pod_cluster() as c, c.running(NAME):
        await create(c, 2)
        await pods_of(c)
        async with rejected_deletions(c, 403) as fault:
            await scale(c, 1)
            (condition,) = (await get(c)).status.conditions
            assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedDelete")
            assert "denied by a test" in condition.message
            before = fault.hits
            await c.clock.advance(60)
            assert fault.hits > before
        await c.clock.advance(1000)
        assert len(await active_of(c)) == 1
        assert (await get(c)).status.conditions == []
