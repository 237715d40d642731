"""Each node with its own network namespace runs kube-proxy; of the nodes in the machine's namespace, one does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.nodes import node_proxies
from sampan.cluster.nodes.node_proxies import NodeProxies
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.informer import InformerFactory
from sampan.network.nodes import NodeAttachment
from sampan.network.proxy.node_proxy import NodeProxy
from tests.controllers.cluster import Cluster, cluster


class _NodeProxy(NodeProxy):
    """A NodeProxy that only records that it runs."""

    running: list[str] = []

    async def run(self) -> None:
        name = self._config.node_name
        self.running.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            self.running.remove(name)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the nodes whose proxies run."""
    monkeypatch.setattr(node_proxies, "NodeProxy", _NodeProxy)
    monkeypatch.setattr(node_proxies, "HOST_LOCK", f"kube-proxy {tmp_path}")
    monkeypatch.setattr(_NodeProxy, "running", [])
    return _NodeProxy.running


def proxies_of(api: Cluster, locks: HostLocks) -> NodeProxies:
    informers = InformerFactory(client=api.client)
    return NodeProxies(
        client=api.client,
        informers=informers,
        clock=api.clock,
        cluster_cidrs=(),
        locks=locks,
        machine=NetworkNamespace(),
    )


def attachment(node: str, namespace: str = "") -> NodeAttachment:
    return NodeAttachment(
        node=node,
        directory=Path("/none"),
        namespace=NetworkNamespace(Path(namespace) if namespace else None),
        addresses=["192.0.2.1"],
    )


async def test_nodes_with_their_own_network_have_a_proxy_each(running: list[str]) -> None:
    async with cluster() as api, asyncio.TaskGroup() as group, proxies_of(api, HostLocks()) as proxies:
        tasks = [group.create_task(proxies.run(attachment(name, f"/run/{name}"))) for name in ("a", "b")]
        await api.clock.settle()
        assert sorted(running) == ["a", "b"]
        for task in tasks:
            task.cancel()


async def test_nodes_that_share_the_network_of_the_machine_have_one_proxy(running: list[str]) -> None:
    async with cluster() as api, asyncio.TaskGroup() as group:
        locks = HostLocks()
        async with proxies_of(api, locks) as proxies:
            first, second = (group.create_task(proxies.run(attachment(name))) for name in ("a", "b"))
            await api.clock.settle()
            assert running == ["a"]
            first.cancel()
            await asyncio.wait([first])
            await api.clock.settle()
            assert running == ["b"]
            second.cancel()
        locks.close()


async def test_kube_proxy_waits_while_another_cluster_runs_kube_proxy(
    running: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster() as api, asyncio.TaskGroup() as group:
        locks, other = HostLocks(), HostLocks()
        assert other.acquire(node_proxies.HOST_LOCK)
        async with proxies_of(api, locks) as proxies:
            task = group.create_task(proxies.run(attachment("a")))
            await api.clock.advance(100)
            assert (running, caplog.text.count("another Sampan cluster runs kube-proxy")) == ([], 1)
            other.close()
            await api.clock.advance(60)
            assert running == ["a"]
            task.cancel()
        locks.close()
