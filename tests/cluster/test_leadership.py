"""Of several processes on one store, one at a time works; another takes over when it goes or is cut off."""

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
from tests.controllers.cluster import Cluster as Small
from tests.controllers.cluster import cluster
from tests.eventually import wait_until
from tests.storage.etcd_server import NO_ETCD, find, one_member

NAME = "kube-scheduler"


class Worker:
    """Somebody who wants to work."""

    def __init__(self, small: Small, name: str) -> None:
        self.metrics = Metrics()
        self._terms = Leadership(config=LeadershipConfig(identity=name), clock=small.clock, metrics=self.metrics)
        self._transport = Cuttable(small.transport)
        self._client = Client(transport=self._transport, clock=small.clock, component=name)
        self.begun = 0
        self.is_working = False

    async def run(self) -> None:
        await self._terms.run(NAME, self._client, self._work)

    async def _work(self) -> None:
        self.begun += 1
        self.is_working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_working = False

    def cut_off(self, is_cut: bool) -> None:
        self._transport.is_cut = is_cut


class Cuttable:
    """A transport that can be cut."""

    def __init__(self, real: Any) -> None:
        self._real, self.is_cut = real, False

    async def send(self, request: Any) -> Any:
        if self.is_cut:
            raise ConnectionFailed("cut", may_have_happened=False)
        return await self._real.send(request)

    def watch(self, request: Any, codec: Any) -> Any:
        return self._real.watch(request, codec)

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(worker.run())
        yield
        task.cancel()


async def test_one_works_and_the_other_takes_over_at_once_when_it_goes() -> None:
    async with cluster() as small:
        first, second = Worker(small, "one"), Worker(small, "two")
        async with running(second):
            async with running(first):
                await small.clock.advance(10)
                assert first.is_working != second.is_working
                leading, waiting = (first, second) if first.is_working else (second, first)
                assert f'leader_election_master_status{{name="{NAME}"}} 1' in leading.metrics.text()
                assert f'leader_election_master_status{{name="{NAME}"}} 0' in waiting.metrics.text()
            await small.clock.advance(5)
            assert second.is_working


async def test_one_that_is_cut_off_stops_before_another_begins_and_stands_by_again() -> None:
    async with cluster() as small:
        first, second = Worker(small, "one"), Worker(small, "two")
        async with running(first):
            await small.clock.advance(3)
            assert first.is_working
            async with running(second):
                first.cut_off(True)
                for _ in range(40):
                    await small.clock.advance(1)
                    assert not (first.is_working and second.is_working)
                assert second.is_working
                first.cut_off(False)
                await small.clock.advance(10)
                assert not first.is_working
            await small.clock.advance(5)
            assert first.is_working
            assert (first.begun, second.begun) == (2, 1)


async def test_without_an_election_work_begins_at_once() -> None:
    async with cluster() as small:
        done = []

        async def work() -> None:
            done.append(1)

        await Leadership(config=None, clock=small.clock, metrics=Metrics()).run(NAME, small.client, work)
        assert done == [1]


@pytest.mark.parametrize(
    ("flag", "servers", "is_on"),
    [(None, ["http://e"], True), (None, [], False), (True, [], True), (False, ["http://e"], False)],
)
def test_the_default_is_on_where_the_store_may_be_shared(flag: bool | None, servers: list[str], is_on: bool) -> None:
    assert (_election({"leader_elect": flag}, StoreConfig(etcd_servers=servers)) is not None) == is_on


# -- two whole clusters on one etcd ----------------------------------------------------------------------------------


def short() -> LeadershipConfig:
    return LeadershipConfig(lease_s=12, renew_s=10.0, retry_s=0.2)


def node_of(cluster: Cluster, name: str) -> str:
    return cluster.run(cluster.client.of(Pod).get(name, "default")).spec.nodeName


def leading(cluster: Cluster) -> set[str]:
    return {name for name, is_leader in cluster.assembly.leadership.leads.items() if is_leader}


@pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)
def test_controllers_and_schedulers_of_two_processes(tmp_path: Path) -> None:
    both = {"kube-scheduler", "kube-controller-manager"}
    with one_member(tmp_path) as etcd, Cluster(store=etcd.client_url, leader_election=short(), nodes=1) as last:
        with Cluster(
            store=etcd.client_url, leader_election=short(), components=["apiserver", "controllers", "scheduler"]
        ) as other:
            wait_until(lambda: leading(last) | leading(other) == both)
            assert leading(last) & leading(other) == set()
            wait_until(lambda: (last.assembly.scheduler is None) != (other.assembly.scheduler is None))
            other.run(other.client.of(Pod).create(builders.pod("a", namespace="default")))
            wait_until(lambda: node_of(other, "a") == "node-0")
        wait_until(lambda: leading(last) == both)
        wait_until(lambda: last.assembly.scheduler is not None and last.assembly.controllers is not None)
        last.run(last.client.of(Pod).create(builders.pod("b", namespace="default")))
        wait_until(lambda: node_of(last, "b") == "node-0")
