"""Hollow nodes with the real scheduler and node lifecycle controller, and the permissions of a node."""

import pytest

from sampan.api.types.core_v1 import Node, Pod
from sampan.kubelet.hollow_nodes import POWER
from sampan.machinery import errors
from sampan.testing import builders
from tests.controllers.cluster import cluster

CONTROLLERS = ("serviceaccount-controller", "node-lifecycle-controller")


async def test_pods_are_spread_over_the_nodes_and_run() -> None:
    async with cluster() as c, c.running(*CONTROLLERS), c.nodes("node-0", "node-1", "node-2"), c.running_scheduler():
        pods = c.client.for_kind(Pod)
        for number in range(9):
            await pods.create(builders.pod(f"p{number}", namespace="default"))
        await c.clock.advance(5)
        items = (await pods.list()).items
        assert {pod.status.phase for pod in items} == {"Running"}
        assert sorted({pod.spec.nodeName for pod in items}) == ["node-0", "node-1", "node-2"]


async def test_node_switched_off_is_not_ready_until_switched_on() -> None:
    async with cluster() as c, c.running(*CONTROLLERS), c.nodes("node-0"):
        nodes = c.client.for_kind(Node)
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: "off"}}})
        await c.clock.advance(120)
        ready = (await nodes.get("node-0")).status.conditions[-1]
        assert (ready.type, ready.status, ready.reason) == ("Ready", "Unknown", "NodeStatusUnknown")
        await nodes.patch("node-0", {"metadata": {"annotations": {POWER: None}}})
        await c.clock.advance(1)
        ready = (await nodes.get("node-0")).status.conditions[-1]
        assert (ready.status, ready.reason) == ("True", "KubeletReady")
        await c.clock.advance(30)
        assert (await nodes.get("node-0")).spec.taints == []


async def test_node_may_not_write_objects_of_another_node() -> None:
    async with cluster() as c, c.running("serviceaccount-controller"), c.nodes("node-0", "node-1"):
        await c.client.for_kind(Pod).create(builders.pod("p", node="node-0", namespace="default"))
        await c.clock.settle()
        other = c.node_client("node-1")
        with pytest.raises(errors.Forbidden, match="set to itself"):
            await other.for_kind(Pod).patch("p", {"status": {"phase": "Failed"}}, "default", subresource="status")
        with pytest.raises(errors.Forbidden, match="not allowed to modify node"):
            await other.for_kind(Node).patch("node-0", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(errors.Forbidden):
            await other.for_kind(Pod).list()
