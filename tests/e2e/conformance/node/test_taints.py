"""Conformance tests of sig-node for eviction by taints and the node lifecycle. The first paragraph of a docstring is
the official test name."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Pod
from sampan.host.clock import VirtualClock
from sampan.machinery.client import PatchType, Selection
from sampan.machinery.copies import copy_of
from sampan.machinery.errors import NotFound
from sampan.testing import Cluster

TAINT = {"key": "kubernetes.io/e2e-evict-taint-key", "value": "evictTaintVal", "effect": "NoExecute"}


def run_scenario(scenario: Callable[[Cluster, VirtualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with Cluster(nodes=2, clock=clock) as cluster:
            await clock.advance(2)
            await scenario(cluster, clock)

    asyncio.run(main())


async def start(cluster: Cluster, clock: VirtualClock, name: str, *, seconds: int, node: str = "") -> str:
    """Create a pod that tolerates the taint for this time, and return the name of its node."""
    toleration = {**TAINT, "operator": "Equal", "tolerationSeconds": seconds}
    spec: dict[str, Any] = {
        "containers": [{"name": "pause", "image": "i"}],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [toleration],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    value = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    await cluster.client.for_kind(Pod).create(codec.from_value(value, Pod))
    await clock.advance(3)
    pod = await cluster.client.for_kind(Pod).get(name, "default")
    assert pod.status.phase == "Running"
    return pod.spec.nodeName


async def taint(cluster: Cluster, node: str, *taints: dict[str, str]) -> None:
    await cluster.client.for_kind(Node).patch(node, {"spec": {"taints": list(taints) or None}}, type=PatchType.MERGE)


async def present(cluster: Cluster) -> list[str]:
    pods = (await cluster.client.for_kind(Pod).list(Selection(namespace="default"))).items
    return sorted(pod.metadata.name for pod in pods)


def test_pods_are_evicted_after_their_toleration_seconds() -> None:
    """[sig-node] NoExecuteTaintManager Multiple Pods evicts pods with minTolerationSeconds [Disruptive]
    [Conformance]"""

    async def scenario(cluster: Cluster, clock: VirtualClock) -> None:
        node = await start(cluster, clock, "taint-eviction-b1", seconds=5)
        assert await start(cluster, clock, "taint-eviction-b2", seconds=60, node=node) == node
        await taint(cluster, node, TAINT)
        await clock.advance(4)
        assert await present(cluster) == ["taint-eviction-b1", "taint-eviction-b2"]
        await clock.advance(4)
        assert await present(cluster) == ["taint-eviction-b2"]
        await clock.advance(60)
        assert await present(cluster) == []

    run_scenario(scenario)


def test_removing_the_taint_cancels_the_eviction() -> None:
    """[sig-node] NoExecuteTaintManager Single Pod removing taint cancels eviction [Disruptive]
    [Conformance]"""

    async def scenario(cluster: Cluster, clock: VirtualClock) -> None:
        node = await start(cluster, clock, "taint-eviction-4", seconds=70)
        await taint(cluster, node, TAINT)
        await clock.advance(30)
        assert await present(cluster) == ["taint-eviction-4"]
        await taint(cluster, node)
        await clock.advance(200)
        assert await present(cluster) == ["taint-eviction-4"]

    run_scenario(scenario)


def test_node_lifecycle() -> None:
    """[sig-node] Node Lifecycle should run through the lifecycle of a node [Conformance]"""

    async def scenario(cluster: Cluster, clock: VirtualClock) -> None:
        nodes = cluster.client.for_kind(Node)
        value = {"metadata": {"name": "e2e-fake-node"}, "spec": {"unschedulable": False}}
        await nodes.create(codec.from_value(value, Node))
        assert (await nodes.get("e2e-fake-node")).metadata.name == "e2e-fake-node"
        await nodes.patch("e2e-fake-node", {"metadata": {"labels": {"e2e-fake-node": "patched"}}})
        fake_nodes = (await nodes.list(Selection(labels="e2e-fake-node=patched"))).items
        assert [node.metadata.name for node in fake_nodes] == ["e2e-fake-node"]
        await clock.advance(90)
        changed = copy_of(await nodes.get("e2e-fake-node"))
        changed.metadata.labels["e2e-fake-node"] = "updated"
        await nodes.update(changed)
        assert (await nodes.get("e2e-fake-node")).metadata.labels["e2e-fake-node"] == "updated"
        await nodes.delete("e2e-fake-node")
        with pytest.raises(NotFound):
            await nodes.get("e2e-fake-node")

    run_scenario(scenario)
