"""Conformance tests of sig-node for updates and deletion of pods. The first paragraph of a docstring is the official
test name."""

import asyncio

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.machinery.client import DeleteParameters, Selection
from sampan.machinery.copies import copy_of
from sampan.machinery.errors import Conflict, NotFound
from tests.e2e.conformance.node.pods import (
    container,
    container_status,
    count_restarts,
    create_pod,
    delete,
    is_ready,
    wait_until_gone,
    wait_until_ready,
)
from tests.e2e.conformance.storage.real_node import IMAGE, RealNode, concurrent_scenario


async def pod_names(node: RealNode, labels: str) -> list[str]:
    """Return the names of the pods with these labels."""
    pods = (await node.client.for_kind(Pod).list(Selection(namespace=node.namespace, labels=labels))).items
    return [pod.metadata.name for pod in pods]


@concurrent_scenario
async def test_active_deadline_seconds_is_updated(node: RealNode) -> None:
    """[sig-node] Pods should allow activeDeadlineSeconds to be updated [NodeConformance] [Conformance]"""
    await create_pod(node, container(), meta={"labels": {"time": "now"}})
    assert await pod_names(node, "time=now") == ["p"]
    await node.wait_until_running("p")
    await node.client.for_kind(Pod).patch("p", {"spec": {"activeDeadlineSeconds": 1}}, node.namespace)
    pod = await node.wait_for("p", lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "DeadlineExceeded"


@concurrent_scenario
async def test_pod_is_submitted_and_removed(node: RealNode) -> None:
    """[sig-node] Pods should be submitted and removed [NodeConformance] [Conformance]"""
    script = "trap 'exit 0' TERM; touch /tmp/hears; sleep 1000 & wait"
    hears = {"exec": {"command": ["test", "-e", "/tmp/hears"]}, "periodSeconds": 1, "timeoutSeconds": 60}
    pod = await create_pod(node, container(script=script, readinessProbe=hears), meta={"labels": {"time": "now"}})
    assert pod.metadata.generation == 1
    assert await pod_names(node, "time=now") == ["p"]
    await wait_until_ready(node)
    mine, last = Selection(namespace=node.namespace, labels="time=now"), None
    async with asyncio.timeout(60), node.client.for_kind(Pod).watch(mine) as events:
        await delete(node, grace_s=600)
        async for batch in events:
            last = batch[-1]
            if last.type == "DELETED":
                break
    assert last is not None
    assert last.object.metadata.deletionTimestamp is not None
    assert await pod_names(node, "time=now") == []


@concurrent_scenario
async def test_pod_labels_are_updated(node: RealNode) -> None:
    """[sig-node] Pods should be updated [NodeConformance] [Conformance]"""
    await create_pod(node, container(), meta={"labels": {"time": "1"}})
    await node.wait_until_running("p")
    assert await pod_names(node, "time=1") == ["p"]
    await node.client.for_kind(Pod).patch("p", {"metadata": {"labels": {"time": "2"}}}, node.namespace)
    assert (await pod_names(node, "time=1"), await pod_names(node, "time=2")) == ([], ["p"])
    assert (await node.wait_until_running("p")).status.containerStatuses[0].restartCount == 0


@concurrent_scenario
async def test_pod_gets_a_host_ip(node: RealNode) -> None:
    """[sig-node] Pods should get a host IP [NodeConformance] [Conformance]"""
    await create_pod(node, container())
    pod = await node.wait_until_running("p")
    assert pod.status.hostIP
    assert pod.status.hostIPs[0].ip == pod.status.hostIP


@concurrent_scenario
async def test_generation_and_graceful_deletion(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation custom-set generation on new pods and graceful delete
    [Conformance]"""
    script = "trap 'sleep 2; exit 0' TERM; sleep 1000 & wait"
    created = await create_pod(
        node, container(script=script), meta={"generation": 100}, terminationGracePeriodSeconds=20
    )
    assert created.metadata.generation == 1
    await node.wait_for("p", lambda pod: pod.status.observedGeneration == 1 and pod.status.phase == "Running")
    await delete(node)
    pod = await node.client.for_kind(Pod).get("p", node.namespace)
    assert pod.metadata.generation == 2
    await wait_until_gone(node)


@concurrent_scenario
async def test_generation_increments_per_spec_update(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation pod generation should start at 1 and increment per
    update [MinimumKubeletVersion:1.34] [Conformance]"""
    await create_pod(node, container(), tolerations=[])
    await node.wait_for("p", lambda pod: pod.status.observedGeneration == 1)
    pods = node.client.for_kind(Pod)
    await pods.patch("p", {"metadata": {"labels": {"a": "b"}}}, node.namespace)
    assert (await pods.get("p", node.namespace)).metadata.generation == 1
    await pods.patch("p", {"spec": {"activeDeadlineSeconds": 1000}}, node.namespace)
    assert (await pods.get("p", node.namespace)).metadata.generation == 2
    await node.wait_for("p", lambda pod: pod.status.observedGeneration == 2)


@concurrent_scenario
async def test_generation_converges_after_500_updates(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation issue 500 podspec updates and verify generation and
    observedGeneration eventually converge [MinimumKubeletVersion:1.34] [Conformance]"""
    await create_pod(node, container())
    pods = node.client.for_kind(Pod)
    for left in range(500):
        await pods.patch("p", {"spec": {"activeDeadlineSeconds": 10000 - left}}, node.namespace)
    pod = await node.wait_for("p", lambda pod: pod.status.observedGeneration == pod.metadata.generation == 501)
    assert pod.spec.activeDeadlineSeconds == 9501


@concurrent_scenario
async def test_delete_collection(node: RealNode) -> None:
    """[sig-node] Pods should delete a collection of pods [Conformance]"""
    names = ["test-pod-1", "test-pod-2", "test-pod-3"]
    for name in names:
        await create_pod(node, container(), name=name, meta={"labels": {"type": "Testing"}})
    for name in names:
        await wait_until_ready(node, name)
    assert await pod_names(node, "type=Testing") == names
    await node.client.for_kind(Pod).delete_collection(Selection(namespace=node.namespace, labels="type=Testing"))
    for name in names:
        await wait_until_gone(node, name)
    assert await pod_names(node, "type=Testing") == []


@concurrent_scenario
async def test_patch_status(node: RealNode) -> None:
    """[sig-node] Pods should patch a pod status [Conformance]"""
    await create_pod(node, container())
    await wait_until_ready(node)
    fields = {"message": "Patched by e2e test", "reason": "E2E"}
    patch = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": fields}
    pods = node.client.for_kind(Pod)
    pod = await pods.patch("p", patch, node.namespace, subresource="status")
    assert (pod.status.message, pod.status.reason) == ("Patched by e2e test", "E2E")
    assert (await pods.get("p", node.namespace)).metadata.annotations["patchedstatus"] == "true"


@concurrent_scenario
async def test_lifecycle(node: RealNode) -> None:
    """[sig-node] Pods should run through the lifecycle of Pods and PodStatus [Conformance]"""
    pods, mine = node.client.for_kind(Pod), Selection(namespace=node.namespace, labels="test-pod-static=true")
    await create_pod(node, container(), meta={"labels": {"test-pod-static": "true"}}, terminationGracePeriodSeconds=1)
    before = await wait_until_ready(node)
    other = f"{IMAGE}:latest"
    changed = [{"name": "c", "image": other}]
    patch = {"metadata": {"labels": {"test-pod": "patched"}}, "spec": {"containers": changed}}
    await pods.patch("p", patch, node.namespace)
    pod = await pods.get("p", node.namespace)
    assert pod.metadata.labels == {"test-pod-static": "true", "test-pod": "patched"}
    assert [container.image for container in pod.spec.containers or ()] == [other]
    assert int(pod.metadata.resourceVersion) > int(before.metadata.resourceVersion)
    await node.wait_for(
        "p", lambda pod: is_ready(pod) and count_restarts(pod) == 1 and container_status(pod).image == other
    )

    await mark_not_ready(node)
    await wait_until_ready(node)
    async with pods.watch(mine) as events:
        await pods.delete_collection(mine, options=DeleteParameters(grace_period_s=1))
        async with asyncio.timeout(60):
            async for batch in events:
                if any(event.type == "DELETED" for event in batch):
                    break
    with pytest.raises(NotFound):
        await pods.get("p", node.namespace)


async def mark_not_ready(node: RealNode) -> None:
    """Write in the status of the pod that it is not ready, which the kubelet will correct."""
    pods = node.client.for_kind(Pod)
    while True:
        pod = copy_of(await pods.get("p", node.namespace))
        for condition in pod.status.conditions:
            if condition.type in ("Ready", "ContainersReady"):
                assert condition.status == "True"
                condition.status = "False"
        try:
            replaced = await pods.update_status(pod)
        except Conflict:
            continue
        states = {condition.type: condition.status for condition in replaced.status.conditions}
        assert (states["Ready"], states["ContainersReady"]) == ("False", "False")
        return
