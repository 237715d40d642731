"""The start of a cluster returns when all nodes are Ready, and fails with the names of those that are not in time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sampan.api.semantics.conditions import is_true
from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cluster.errors import ClusterError
from sampan.cluster.nodes import hollow_nodes, real_nodes
from sampan.cluster.nodes.node_summary import not_ready_text, ready_timeout_s, summary
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.host.clock import Clock, RealClock, VirtualClock
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.hollow_nodes import RUNTIME
from sampan.testing import Cluster

COMPONENTS = ("apiserver", "kubelet")


@pytest.mark.parametrize("clock", [RealClock(), VirtualClock()], ids=["real-clock", "virtual-clock"])
async def test_all_nodes_are_ready_on_entry(clock: Clock) -> None:
    async with Cluster(nodes=300, components=COMPONENTS, clock=clock) as cluster:
        nodes = (await cluster.client.for_kind(Node).list_all()).items
        assert sum(is_true(node.status.conditions, "Ready") for node in nodes) == len(nodes) == 300
        assert cluster.assembly.fleet is not None
        assert len(cluster.assembly.fleet) == 300


async def test_real_nodes_are_ready_on_entry() -> None:
    async with Cluster(nodes=2, runtime="process") as cluster:
        nodes = (await cluster.client.for_kind(Node).list()).items
        assert [is_true(node.status.conditions, "Ready") for node in nodes] == [True, True]


class _SlowFleet:
    """A fleet of which some nodes never run."""

    async def initial_names(self) -> list[str]:
        return ["node-0", "node-1", "node-2"]

    async def wait_until_running(self, names: Sequence[str]) -> None:
        await asyncio.Event().wait()

    def list_missing(self, names: Sequence[str]) -> list[str]:
        return list(names[1:])


async def test_start_fails_with_the_names_of_hollow_nodes_that_are_not_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hollow_nodes, "ready_timeout_s", lambda count: 0.05)
    monkeypatch.setattr(hollow_nodes, "_PROGRESS_S", 0.02)
    fleet: Any = _SlowFleet()
    with pytest.raises(ClusterError, match=r"^not ready after 0 s: nodes node-1, node-2$"):
        await hollow_nodes.wait_for_nodes(fleet)
    assert "1 of 3 nodes are ready so far" in caplog.text


async def test_start_fails_with_the_names_of_real_nodes_that_are_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: Kubelet, group: asyncio.TaskGroup) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(real_nodes, "ready_timeout_s", lambda count: 1.0)
    monkeypatch.setattr(Kubelet, "_join", never)
    with pytest.raises(ClusterError, match=r"^not ready after 1 s: node node-0; node-0: it is not registered$"):
        async with Cluster(nodes=1, runtime="process", components=(*COMPONENTS, "controllers")):
            pass


def test_time_limit_grows_with_the_number_of_nodes() -> None:
    assert [ready_timeout_s(count) for count in (1, 1000, 5000)] == [60, 60, 300]


def test_error_names_some_of_many_nodes() -> None:
    names = [f"node-{number}" for number in range(12)]
    text = "not ready after 60 s: nodes node-0, node-1, node-2, node-3, node-4 and 7 more; node-0: no network"
    assert not_ready_text(names, 60, "no network") == text


def _node(name: str, runtime: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, annotations={RUNTIME: runtime}))


def test_summary_does_not_deny_nodes_that_are_there() -> None:
    config = NodesConfig(note="there is no node: no crun or runc")
    assert summary([], config) == "there is no node: no crun or runc"
    assert summary([_node("a", "hollow"), _node("b", "hollow")], config) == "2 hollow; no real node: no crun or runc"
