"""Of several processes on one store one leads; another takes over when the leader stops or is disconnected."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.cli.up import _election
from sampan.cluster.cluster_config import StoreConfig
from sampan.cluster.leadership import Leadership, LeadershipConfig
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.telemetry.metrics import Metrics
from sampan.testing import Cluster, builders
from tests.controllers.cluster import Cluster as ControllerCluster
from tests.controllers.cluster import cluster
from tests.eventually import wait_until
from tests.storage.etcd_server import NO_ETCD, find, running_member

NAME = "kube-scheduler"


class Worker:
    """A component that works while it is the leader."""

    def __init__(self, api: ControllerCluster, name: str) -> None:
        self.metrics = Metrics()
        self._leadership = Leadership(config=LeadershipConfig(identity=name), clock=api.clock, metrics=self.metrics)
        self._transport = CuttableTransport(api.transport)
        self._client = Client(transport=self._transport, clock=api.clock, component=name)
        self.start_count = 0
        self.is_working = False

    async def run(self) -> None:
        await self._leadership.run(NAME, self._client, self._work)

    async def _work(self) -> None:
        self.start_count += 1
        self.is_working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_working = False

    def set_disconnected(self, is_disconnected: bool) -> None:
        self._transport.is_disconnected = is_disconnected


class CuttableTransport:
    """A transport whose connection can be cut."""

    def __init__(self, real: Any) -> None:
        self._real, self.is_disconnected = real, False

    async def send(self, request: Any) -> Any:
        if self.is_disconnected:
            raise ConnectionFailed("cut", may_have_happened=False)
        return await self._real.send(request)

    def watch(self, request: Any, codec: Any) -> Any:
        return self._real.watch(request, codec)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running_worker(worker: Worker) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(worker.run())
        yield
        task.cancel()


async def test_standby_takes_over_at_once_when_the_leader_stops() -> None:
    async with cluster() as api:
        first, second = Worker(api, "one"), Worker(api, "two")
        async with running_worker(second):
            async with running_worker(first):
                await api.clock.advance(10)
                assert first.is_working != second.is_working
                leading, waiting = (first, second) if first.is_working else (second, first)
                assert f'leader_election_master_status{{name="{NAME}"}} 1' in leading.metrics.text()
                assert f'leader_election_master_status{{name="{NAME}"}} 0' in waiting.metrics.text()
            await api.clock.advance(5)
            assert second.is_working


async def test_disconnected_leader_stops_before_the_standby_leads() -> None:
    async with cluster() as api:
        first, second = Worker(api, "one"), Worker(api, "two")
        async with running_worker(first):
            await api.clock.advance(3)
            assert first.is_working
            async with running_worker(second):
                first.set_disconnected(True)
                for _ in range(40):
                    await api.clock.advance(1)
                    assert not (first.is_working and second.is_working)
                assert second.is_working
                first.set_disconnected(False)
                await api.clock.advance(10)
                assert not first.is_working
            await api.clock.advance(5)
            assert first.is_working
            assert (first.start_count, second.start_count) == (2, 1)


async def test_work_starts_at_once_without_leader_election() -> None:
    async with cluster() as api:
        done = []

        async def work() -> None:
            done.append(1)

        await Leadership(config=None, clock=api.clock, metrics=Metrics()).run(NAME, api.client, work)
        assert done == [1]


@pytest.mark.parametrize(
    ("flag", "servers", "is_on"),
    [(None, ["http://e"], True), (None, [], False), (True, [], True), (False, ["http://e"], False)],
)
def test_leader_election_is_on_by_default_with_etcd(flag: bool | None, servers: list[str], is_on: bool) -> None:
    assert (_election({"leader_elect": flag}, StoreConfig(etcd_servers=servers)) is not None) == is_on


# -- two whole clusters on one etcd ----------------------------------------------------------------------------------


def short_lease() -> LeadershipConfig:
    return LeadershipConfig(lease_s=12, renew_s=10.0, retry_s=0.2)


def node_of(cluster: Cluster, name: str) -> str:
    return cluster.run(cluster.client.for_kind(Pod).get(name, "default")).spec.nodeName


def list_led_components(cluster: Cluster) -> set[str]:
    return {name for name, is_leader in cluster.assembly.leadership.leads.items() if is_leader}


@pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)
def test_two_clusters_on_one_etcd_have_one_leader_of_each_component(tmp_path: Path) -> None:
    both = {"kube-scheduler", "kube-controller-manager"}
    with (
        running_member(tmp_path) as etcd,
        Cluster(store=etcd.client_url, leader_election=short_lease(), nodes=1) as last,
    ):
        with Cluster(
            store=etcd.client_url, leader_election=short_lease(), components=["apiserver", "controllers", "scheduler"]
        ) as other:
            wait_until(lambda: list_led_components(last) | list_led_components(other) == both)
            assert list_led_components(last) & list_led_components(other) == set()
            wait_until(lambda: (last.assembly.scheduler is None) != (other.assembly.scheduler is None))
            other.run(other.client.for_kind(Pod).create(builders.pod("a", namespace="default")))
            wait_until(lambda: node_of(other, "a") == "node-0")
        wait_until(lambda: list_led_components(last) == both)
        wait_until(lambda: last.assembly.scheduler is not None and last.assembly.controllers is not None)
        last.run(last.client.for_kind(Pod).create(builders.pod("b", namespace="default")))
        wait_until(lambda: node_of(last, "b") == "node-0")
