"""Conformance tests of sig-node for runtime classes and ephemeral containers. The first paragraph of a docstring is the
official test name."""

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.api.types.node_v1 import RuntimeClass
from sampan.machinery.errors import Forbidden
from tests.e2e.conformance.apps.replica_cluster import ReplicaCluster, condition, run_scenario
from tests.e2e.conformance.node.pods import container, create_pod, wait_until_ready
from tests.e2e.conformance.storage.real_node import IMAGE, RealNode, concurrent_scenario


async def runtime_class(node: RealNode, **more: Any) -> str:
    name = f"class-of-{node.namespace}"
    value = {"metadata": {"name": name}, "handler": "runc", **more}
    await node.client.for_kind(RuntimeClass).create(json.from_value(value, RuntimeClass))
    return name


@concurrent_scenario
async def test_pod_with_missing_runtime_class_is_rejected(node: RealNode) -> None:
    """[sig-node] RuntimeClass should reject a Pod requesting a non-existent RuntimeClass [NodeConformance]
    [Conformance]"""
    with pytest.raises(Forbidden, match="not found"):
        await create_pod(node, container(), runtimeClassName=f"{node.namespace}-nonexistent")


@concurrent_scenario
async def test_pod_with_deleted_runtime_class_is_rejected(node: RealNode) -> None:
    """[sig-node] RuntimeClass should reject a Pod requesting a deleted RuntimeClass [NodeConformance] [Conformance]"""
    name = await runtime_class(node)
    await node.client.for_kind(RuntimeClass).delete(name)
    with pytest.raises(Forbidden, match="not found"):
        await create_pod(node, container(), runtimeClassName=name)


async def create_pod_of_class(c: ReplicaCluster, name: str, **more: Any) -> Pod:
    """Create a pod of a class with an unknown handler, and return it after the scheduler has handled it."""
    value = {"metadata": {"name": name}, "handler": "e2e-handler", **more}
    await c.for_kind(RuntimeClass).create(json.from_value(value, RuntimeClass))
    spec = {"runtimeClassName": name, "containers": [{"name": "c", "image": "i"}]}
    pod = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    await c.create(json.from_value(pod, Pod))
    stored_pod: Pod = await c.get(Pod, name)
    return stored_pod


def test_runtime_class_without_overhead() -> None:
    """[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass without PodOverhead [NodeConformance]
    [Conformance]"""

    async def scenario(c: ReplicaCluster) -> None:
        pod = await create_pod_of_class(c, "plain")
        assert pod.spec.nodeName
        assert not pod.spec.overhead

    run_scenario(scenario)


def test_runtime_class_with_overhead() -> None:
    """[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead
    [NodeConformance] [Conformance]"""

    async def scenario(c: ReplicaCluster) -> None:
        pod = await create_pod_of_class(c, "some", overhead={"podFixed": {"cpu": "10m", "memory": "1Mi"}})
        assert pod.spec.nodeName
        assert pod.spec.overhead == {"cpu": "10m", "memory": "1Mi"}
        pod = await create_pod_of_class(c, "much", overhead={"podFixed": {"cpu": "1000000"}})
        assert not pod.spec.nodeName
        assert "Insufficient cpu" in condition(pod, "PodScheduled").message

    run_scenario(scenario)


@concurrent_scenario
async def test_pod_of_a_runtime_class_with_known_handler_starts(node: RealNode) -> None:
    overhead = {"podFixed": {"cpu": "10m", "memory": "1Mi"}}
    await create_pod(node, container(), runtimeClassName=await runtime_class(node, overhead=overhead))
    await wait_until_ready(node)


def debugger(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **more}


async def debug(node: RealNode, *containers: dict[str, Any]) -> None:
    patch = {"spec": {"ephemeralContainers": list(containers)}}
    await node.client.for_kind(Pod).patch("p", patch, node.namespace, subresource="ephemeralcontainers")


@concurrent_scenario
async def test_ephemeral_container_starts(node: RealNode) -> None:
    """[sig-node] Ephemeral Containers will start an ephemeral container in an existing pod
    [Conformance]"""
    await create_pod(node, container(script="exec sleep 4711"))
    await wait_until_ready(node)
    script = "cat /proc/1/cmdline | tr '\\0' ' ' > /dev/termination-log; sleep 1000"
    await debug(node, debugger("debugger", script, targetContainerName="c", tty=True, stdin=True))
    await node.wait_for(
        "p", lambda pod: any(status.state.running is not None for status in pod.status.ephemeralContainerStatuses)
    )


@concurrent_scenario
async def test_ephemeral_containers_are_updated(node: RealNode) -> None:
    """[sig-node] Ephemeral Containers should update the ephemeral containers in an existing pod
    [Conformance]"""
    await create_pod(node, container())
    await wait_until_ready(node)
    first = debugger("debugger", "exit 0")
    await debug(node, first)
    pod = await node.wait_for(
        "p", lambda pod: any(status.state.terminated is not None for status in pod.status.ephemeralContainerStatuses)
    )
    assert [container.name for container in pod.spec.ephemeralContainers] == ["debugger"]
    await debug(node, debugger("debugger2", "exit 0"))
    pod = await node.wait_for(
        "p",
        lambda pod: sum(status.state.terminated is not None for status in pod.status.ephemeralContainerStatuses) == 2,
    )
    assert {container.name for container in pod.spec.ephemeralContainers} == {"debugger", "debugger2"}


@concurrent_scenario
async def test_ephemeral_container_shares_processes_of_its_target(node: RealNode) -> None:
    await create_pod(node, container(script="exec sleep 4711"))
    await wait_until_ready(node)
    script = "tr '\\0' ' ' < /proc/1/cmdline > /dev/termination-log"
    await debug(node, debugger("debugger", script, targetContainerName="c"))
    pod = await node.wait_for(
        "p", lambda pod: any(status.state.terminated is not None for status in pod.status.ephemeralContainerStatuses)
    )
    state = pod.status.ephemeralContainerStatuses[0].state.terminated
    assert state is not None
    assert state.message.strip() == "sleep 4711"
