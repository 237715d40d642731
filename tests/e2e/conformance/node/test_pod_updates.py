"""The conformance descriptions of sig-node for what becomes of pods that are changed and deleted, each a test whose
first line is its name."""

import asyncio

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.machinery.client import Delete, Selection
from sampan.machinery.copies import copy_of
from sampan.machinery.errors import Conflict, NotFound
from tests.e2e.conformance.node.pods import container, delete, gone, is_ready, ready, restarts, run, status
from tests.e2e.conformance.storage.real_node import IMAGE, RealNode, together


async def chosen(node: RealNode, labels: str) -> list[str]:
    """The names of pods with the labels."""
    pods = (await node.client.of(Pod).list(Selection(namespace=node.namespace, labels=labels))).items
    return [pod.metadata.name for pod in pods]


@together
async def test_a_deadline_set_later(node: RealNode) -> None:
    """[sig-node] Pods should allow activeDeadlineSeconds to be updated [NodeConformance] [Conformance]"""
    await run(node, container(), meta={"labels": {"time": "now"}})
    assert await chosen(node, "time=now") == ["p"]
    await node.running("p")
    await node.client.of(Pod).patch("p", {"spec": {"activeDeadlineSeconds": 1}}, node.namespace)
    pod = await node.when("p", lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "DeadlineExceeded"


@together
async def test_submitted_and_removed(node: RealNode) -> None:
    """[sig-node] Pods should be submitted and removed [NodeConformance] [Conformance]"""
    script = "trap 'exit 0' TERM; touch /tmp/hears; sleep 1000 & wait"
    hears = {"exec": {"command": ["test", "-e", "/tmp/hears"]}, "periodSeconds": 1, "timeoutSeconds": 60}
    pod = await run(node, container(script=script, readinessProbe=hears), meta={"labels": {"time": "now"}})
    assert pod.metadata.generation == 1
    assert await chosen(node, "time=now") == ["p"]
    await ready(node)
    mine, last = Selection(namespace=node.namespace, labels="time=now"), None
    async with asyncio.timeout(60), node.client.of(Pod).watch(mine) as events:
        await delete(node, grace_s=600)
        async for batch in events:
            last = batch[-1]
            if last.type == "DELETED":
                break
    assert last is not None
    assert last.object.metadata.deletionTimestamp is not None
    assert await chosen(node, "time=now") == []


@together
async def test_updated(node: RealNode) -> None:
    """[sig-node] Pods should be updated [NodeConformance] [Conformance]"""
    await run(node, container(), meta={"labels": {"time": "1"}})
    await node.running("p")
    assert await chosen(node, "time=1") == ["p"]
    await node.client.of(Pod).patch("p", {"metadata": {"labels": {"time": "2"}}}, node.namespace)
    assert (await chosen(node, "time=1"), await chosen(node, "time=2")) == ([], ["p"])
    assert (await node.running("p")).status.containerStatuses[0].restartCount == 0


@together
async def test_address_of_the_host(node: RealNode) -> None:
    """[sig-node] Pods should get a host IP [NodeConformance] [Conformance]"""
    await run(node, container())
    pod = await node.running("p")
    assert pod.status.hostIP
    assert pod.status.hostIPs[0].ip == pod.status.hostIP


@together
async def test_generation_and_graceful_deletion(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation custom-set generation on new pods and graceful delete
    [Conformance]"""
    script = "trap 'sleep 2; exit 0' TERM; sleep 1000 & wait"
    created = await run(node, container(script=script), meta={"generation": 100}, terminationGracePeriodSeconds=20)
    assert created.metadata.generation == 1
    await node.when("p", lambda pod: pod.status.observedGeneration == 1 and pod.status.phase == "Running")
    await delete(node)
    pod = await node.client.of(Pod).get("p", node.namespace)
    assert pod.metadata.generation == 2
    await gone(node)


@together
async def test_generation_counts_updates(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation pod generation should start at 1 and increment per
    update [MinimumKubeletVersion:1.34] [Conformance]"""
    await run(node, container(), tolerations=[])
    await node.when("p", lambda pod: pod.status.observedGeneration == 1)
    pods = node.client.of(Pod)
    await pods.patch("p", {"metadata": {"labels": {"a": "b"}}}, node.namespace)
    assert (await pods.get("p", node.namespace)).metadata.generation == 1
    await pods.patch("p", {"spec": {"activeDeadlineSeconds": 1000}}, node.namespace)
    assert (await pods.get("p", node.namespace)).metadata.generation == 2
    await node.when("p", lambda pod: pod.status.observedGeneration == 2)


@together
async def test_generation_of_many_updates(node: RealNode) -> None:
    """[sig-node] Pods Extended (pod generation) Pod Generation issue 500 podspec updates and verify generation and
    observedGeneration eventually converge [MinimumKubeletVersion:1.34] [Conformance]"""
    await run(node, container())
    pods = node.client.of(Pod)
    for left in range(500):
        await pods.patch("p", {"spec": {"activeDeadlineSeconds": 10000 - left}}, node.namespace)
    pod = await node.when("p", lambda pod: pod.status.observedGeneration == pod.metadata.generation == 501)
    assert pod.spec.activeDeadlineSeconds == 9501


@together
async def test_deleting_a_collection(node: RealNode) -> None:
    """[sig-node] Pods should delete a collection of pods [Conformance]"""
    names = ["test-pod-1", "test-pod-2", "test-pod-3"]
    for name in names:
        await run(node, container(), name=name, meta={"labels": {"type": "Testing"}})
    for name in names:
        await ready(node, name)
    assert await chosen(node, "type=Testing") == names
    await node.client.of(Pod).delete_collection(Selection(namespace=node.namespace, labels="type=Testing"))
    for name in names:
        await gone(node, name)
    assert await chosen(node, "type=Testing") == []


@together
async def test_patching_a_status(node: RealNode) -> None:
    """[sig-node] Pods should patch a pod status [Conformance]"""
    await run(node, container())
    await ready(node)
    fields = {"message": "Patched by e2e test", "reason": "E2E"}
    patch = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": fields}
    pods = node.client.of(Pod)
    pod = await pods.patch("p", patch, node.namespace, subresource="status")
    assert (pod.status.message, pod.status.reason) == ("Patched by e2e test", "E2E")
    assert (await pods.get("p", node.namespace)).metadata.annotations["patchedstatus"] == "true"


@together
async def test_lifecycle(node: RealNode) -> None:
    """[sig-node] Pods should run through the lifecycle of Pods and PodStatus [Conformance]"""
    pods, mine = node.client.of(Pod), Selection(namespace=node.namespace, labels="test-pod-static=true")
    await run(node, container(), meta={"labels": {"test-pod-static": "true"}}, terminationGracePeriodSeconds=1)
    before = await ready(node)
    other = f"{IMAGE}:latest"
    changed = [{"name": "c", "image": other}]
    patch = {"metadata": {"labels": {"test-pod": "patched"}}, "spec": {"containers": changed}}
    await pods.patch("p", patch, node.namespace)
    pod = await pods.get("p", node.namespace)
    assert pod.metadata.labels == {"test-pod-static": "true", "test-pod": "patched"}
    assert [container.image for container in pod.spec.containers or ()] == [other]
    assert int(pod.metadata.resourceVersion) > int(before.metadata.resourceVersion)
    await node.when("p", lambda pod: is_ready(pod) and restarts(pod) == 1 and status(pod).image == other)

    await unready(node)
    await ready(node)
    async with pods.watch(mine) as events:
        await pods.delete_collection(mine, options=Delete(grace_period_s=1))
        async with asyncio.timeout(60):
            async for batch in events:
                if any(event.type == "DELETED" for event in batch):
                    break
    with pytest.raises(NotFound):
        await pods.get("p", node.namespace)


async def unready(node: RealNode) -> None:
    """Say in the pod's status that it is not ready, which the node will put right."""
    pods = node.client.of(Pod)
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
