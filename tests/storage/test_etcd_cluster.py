"""The etcd store while its etcd fails: leaders killed, connections cut, answers lost."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from sampan.storage.etcd import EtcdBackend
from tests.storage.etcd_server import NO_ETCD, Member, find, one_member, several_members
from tests.storage.etcd_traffic import Traffic, check, observing
from tests.storage.tcp_proxy import TcpProxy

pytestmark = pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)

CLUSTER_FLAGS = (
    "--heartbeat-interval=30",
    "--election-timeout=300",
    # etcd 3.5.0 to 3.5.2 can lose an applied entry if it is killed just after a periodic commit of its database (etcd
    # issue 13766). Without such commits a member comes back from its log alone, which is what is durable.
    "--backend-batch-interval=1h",
    "--backend-batch-limit=1000000",
)
BUSY_S = 20.0
"""How long leaders are killed for, at most."""


def test_nothing_is_lost_while_leaders_are_killed(tmp_path: Path) -> None:
    with several_members(tmp_path, flags=CLUSTER_FLAGS) as members:
        kills, traffic = asyncio.run(_kill_leaders(members))
    assert kills >= 3, "too few leaders were killed to mean anything"
    assert len(traffic.acknowledged) > 300


async def _kill_leaders(members: Sequence[Member]) -> tuple[int, Traffic]:
    kills, end = 0, time.monotonic() + BUSY_S
    async with asyncio.timeout(60), EtcdBackend(endpoints=[member.client_url for member in members]) as backend:
        start, traffic = await backend.current_revision(), Traffic(backend)
        async with observing(backend, after=start, count=4) as observers:
            async with traffic.flowing(writers=8):
                while kills < 6 and time.monotonic() < end:
                    leader = await _until_one(members, Member.is_leader)
                    await asyncio.to_thread(leader.kill)
                    kills += 1
                    await traffic.more(100)
                    leader.start()
                    await asyncio.to_thread(leader.wait_until_healthy)
                    await traffic.more(50)
            await check(members[0].client_url, start=start, traffic=traffic, observers=observers)
    return kills, traffic


async def _until_one(members: Sequence[Member], condition: Callable[[Member], bool]) -> Member:
    while True:
        for member in members:
            if await asyncio.to_thread(condition, member):
                return member


def test_nothing_is_lost_while_connections_are_cut(tmp_path: Path) -> None:
    dice = random.Random(1)

    async def cut(proxy: TcpProxy, traffic: Traffic) -> None:
        for _ in range(25):
            await traffic.more(dice.randrange(1, 40))
            proxy.cut()

    traffic = _through_a_proxy(tmp_path, cut)
    assert len(traffic.acknowledged) > 300


def _through_a_proxy(tmp_path: Path, disturb: Callable[[TcpProxy, Traffic], Awaitable[None]]) -> Traffic:
    async def run(member: Member) -> Traffic:
        async with (
            asyncio.timeout(40),
            TcpProxy(member.client_port).running() as proxy,
            EtcdBackend(endpoints=[proxy.url]) as backend,
        ):
            start, traffic = await backend.current_revision(), Traffic(backend)
            async with observing(backend, after=start, count=3) as observers:
                async with traffic.flowing(writers=6):
                    await disturb(proxy, traffic)
                await check(member.client_url, start=start, traffic=traffic, observers=observers)
            return traffic

    with one_member(tmp_path) as member:
        return asyncio.run(run(member))
