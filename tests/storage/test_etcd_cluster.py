"""The etcd store while etcd fails: leaders are killed, connections are cut, responses are lost."""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sampan.storage.backend import Compacted, KeyValue, StoreConflict, Unavailable
from sampan.storage.etcd import EtcdBackend, EtcdTimeouts
from tests.eventually import eventually
from tests.ports import free_ports
from tests.storage.etcd_server import NO_ETCD, Member, find, running_member, running_members
from tests.storage.etcd_traffic import Traffic, check, open_observers
from tests.storage.tcp_proxy import TcpProxy

pytestmark = pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)

CLUSTER_FLAGS = (
    "--heartbeat-interval=50",
    "--election-timeout=500",
    # etcd 3.5.0 to 3.5.2 can lose an applied entry if it is killed just after a periodic commit of its database (etcd
    # issue 13766). Without such commits a member comes back from its log alone, which is what is durable.
    "--backend-batch-interval=1h",
    "--backend-batch-limit=1000000",
)
BUSY_S, FEWEST, MOST = 20.0, 3, 6
"""For how long leaders are killed, and how many at least and at most."""


TIMEOUTS = EtcdTimeouts(attempt_s=1)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    with running_member(tmp_path_factory.mktemp("etcd")) as member:
        yield member


def test_no_write_or_event_is_lost_while_leaders_are_killed(tmp_path: Path) -> None:
    with running_members(tmp_path, flags=CLUSTER_FLAGS) as cluster:
        kills, traffic = asyncio.run(_kill_leaders(cluster))
    assert len(traffic.acknowledged) > 100 * kills


async def _kill_leaders(members: Sequence[Member]) -> tuple[int, Traffic]:
    kills, end = 0, time.monotonic() + BUSY_S
    async with asyncio.timeout(150), _backend(*members) as backend:
        start, traffic = await backend.current_revision(), Traffic(backend, root="/traffic/")
        async with open_observers(backend, root=traffic.root, after=start, count=4) as observers:
            async with traffic.flowing(writers=8):
                while kills < FEWEST or (kills < MOST and time.monotonic() < end):
                    leader = await _leader(members)
                    await asyncio.to_thread(leader.kill)
                    kills += 1
                    await traffic.wait_for_writes(100)
                    leader.start()
                    await asyncio.to_thread(leader.wait_until_healthy)
                    await traffic.wait_for_writes(50)
            await check(members[0].client_url, start=start, traffic=traffic, observers=observers)
    return kills, traffic


def test_writes_continue_when_a_member_stops_responding(tmp_path: Path) -> None:
    async def main(cluster: Sequence[Member]) -> None:
        async with asyncio.timeout(150), _backend(*cluster) as backend:
            start, traffic = await backend.current_revision(), Traffic(backend, root="/traffic/")
            leader = await _leader(cluster)
            stopped = next(member for member in cluster if member is not leader)
            async with open_observers(backend, root=traffic.root, after=start, count=1) as observers:
                async with traffic.flowing(writers=8):
                    await traffic.wait_for_writes(50)
                    stopped.signal(signal.SIGSTOP)
                    try:
                        async with asyncio.timeout(60):
                            await traffic.wait_for_writes(500)
                    finally:
                        stopped.signal(signal.SIGCONT)
                await check(leader.client_url, start=start, traffic=traffic, observers=observers)

    with running_members(tmp_path, flags=(*CLUSTER_FLAGS, "--unsafe-no-fsync")) as members:
        asyncio.run(main(members))


async def test_unreachable_endpoints_are_skipped(etcd: Member) -> None:
    unreachable = [f"http://127.0.0.1:{port}" for port in free_ports(2)]

    async with asyncio.timeout(60), EtcdBackend(endpoints=[*unreachable, etcd.client_url]) as backend:
        for i in range(20):
            await backend.put("/registry/unreachable", str(i).encode())


async def _leader(members: Sequence[Member]) -> Member:
    async def leader() -> Member | None:
        for member in members:
            if await asyncio.to_thread(member.is_leader):
                return member
        return None

    member = await eventually(leader)
    assert member is not None
    return member


def _backend(*members: Member) -> EtcdBackend:
    return EtcdBackend(endpoints=[member.client_url for member in members], timeouts=TIMEOUTS)


Scenario = Callable[[TcpProxy, EtcdBackend, EtcdBackend], Awaitable[None]]


def _run_scenario(etcd: Member, scenario: Scenario) -> None:
    """Run a scenario with a proxy, a backend that connects through it, and a backend that connects directly."""

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            TcpProxy(etcd.client_port).running() as proxy,
            EtcdBackend(endpoints=[proxy.url], timeouts=TIMEOUTS) as backend,
            _backend(etcd) as direct,
        ):
            await scenario(proxy, backend, direct)

    asyncio.run(main())


def test_no_write_or_event_is_lost_while_connections_are_cut(etcd: Member) -> None:
    chance = random.Random(1)

    async def scenario(proxy: TcpProxy, backend: EtcdBackend, direct: EtcdBackend) -> None:
        start, traffic = await backend.current_revision(), Traffic(backend, root="/traffic/")
        async with open_observers(backend, root=traffic.root, after=start, count=4) as observers:
            async with traffic.flowing(writers=6):
                for _ in range(25):
                    await traffic.wait_for_writes(chance.randrange(1, 40))
                    proxy.cut()
            await check(etcd.client_url, start=start, traffic=traffic, observers=observers)
        assert len(traffic.acknowledged) > 300

    _run_scenario(etcd, scenario)


async def _lose_response(proxy: TcpProxy, direct: EtcdBackend, key: str, write: Awaitable[int]) -> int | BaseException:
    """Start a write, wait until the server has done it, and cut the connection before the response arrives."""
    async with direct.watch(key, after=await direct.current_revision()) as watch:
        proxy.hold_responses()
        writing = asyncio.ensure_future(write)
        assert len((await anext(aiter(watch))).events) == 1
    proxy.cut()
    proxy.release()
    [outcome] = await asyncio.gather(writing, return_exceptions=True)
    return outcome


@pytest.mark.parametrize("kind", ["create", "swap", "unchecked"])
def test_put_with_lost_response_returns_its_revision(etcd: Member, kind: str) -> None:
    key = f"/registry/lost/{kind}"

    async def scenario(proxy: TcpProxy, backend: EtcdBackend, direct: EtcdBackend) -> None:
        expected = {"create": 0, "swap": await backend.put(key, b"old"), "unchecked": None}[kind]
        if kind == "create":
            await backend.delete(key)
        outcome = await _lose_response(proxy, direct, key, backend.put(key, b"new", expected=expected))
        entry, _ = await direct.get(key)
        assert entry is not None
        assert (entry.value, entry.revision) == (b"new", outcome)

    _run_scenario(etcd, scenario)


@pytest.mark.parametrize("is_checked", [True, False])
def test_put_with_lost_response_is_not_repeated_if_overwritten_meanwhile(etcd: Member, is_checked: bool) -> None:
    key = f"/registry/lost/overwritten{is_checked}"

    async def scenario(proxy: TcpProxy, backend: EtcdBackend, direct: EtcdBackend) -> None:
        first = await backend.put(key, b"1")
        async with direct.watch(key, after=first) as watch:
            proxy.hold_responses()
            writing = asyncio.ensure_future(backend.put(key, b"2", expected=first if is_checked else None))
            [event] = (await anext(aiter(watch))).events
        last = await direct.put(key, b"3", expected=event.revision)
        proxy.cut()
        proxy.release()
        assert await writing == event.revision
        assert await backend.get(key) == (KeyValue(key, b"3", last, first), last)

    _run_scenario(etcd, scenario)


@pytest.mark.parametrize("is_checked", [True, False])
def test_delete_with_lost_response_may_have_happened(etcd: Member, is_checked: bool) -> None:
    key = f"/registry/lost/delete{is_checked}"

    async def scenario(proxy: TcpProxy, backend: EtcdBackend, direct: EtcdBackend) -> None:
        revision = await backend.put(key, b"x")
        deletion = backend.delete(key, expected=revision if is_checked else None)
        outcome = await _lose_response(proxy, direct, key, deletion)
        assert isinstance(outcome, Unavailable)
        assert outcome.may_have_happened

    _run_scenario(etcd, scenario)


def test_put_with_lost_request_conflicts_with_a_write_made_meanwhile(etcd: Member) -> None:
    key = "/registry/lost/late"

    async def scenario(proxy: TcpProxy, backend: EtcdBackend, direct: EtcdBackend) -> None:
        first = await backend.put(key, b"1")
        proxy.hold_requests()
        writing = asyncio.ensure_future(backend.put(key, b"2", expected=first))
        second = await direct.put(key, b"3", expected=first)
        proxy.cut()
        proxy.release()
        with pytest.raises(StoreConflict) as caught:
            await writing
        assert caught.value.current == KeyValue(key, b"3", second, first)

    _run_scenario(etcd, scenario)


async def test_put_without_response_before_the_timeout_may_have_happened(etcd: Member) -> None:
    timeouts = EtcdTimeouts(attempt_s=0.5, request_s=2)
    async with (
        asyncio.timeout(60),
        TcpProxy(etcd.client_port).running() as proxy,
        EtcdBackend(endpoints=[proxy.url], timeouts=timeouts) as backend,
    ):
        proxy.hold_responses()
        requests = {
            "create": backend.put("/registry/doubt/create", b"x", expected=0),
            "put": backend.put("/registry/doubt/put", b"x"),
            "get": backend.get("/registry/doubt/create"),
        }
        errors = dict(zip(requests, await asyncio.gather(*requests.values(), return_exceptions=True), strict=True))
        doubts = {name: error.may_have_happened for name, error in errors.items() if isinstance(error, Unavailable)}
        assert doubts == {"create": True, "put": True, "get": False}, errors


def test_compaction_while_disconnected_ends_watches_but_not_the_backend(etcd: Member) -> None:
    """Events that were compacted before they were received are lost. The watch ends with an error; new watches work."""
    key = "/registry/cut-off/a"

    async def scenario(proxy: TcpProxy, backend: EtcdBackend, direct: EtcdBackend) -> None:
        start = await backend.put(key, b"0")
        async with backend.watch(key, after=start) as watch:
            proxy.hold_requests()
            proxy.cut()
            for i in range(5):
                last = await direct.put(key, str(i).encode())
            await direct.compact(last)
            proxy.cut()
            proxy.release()
            with pytest.raises(Compacted):
                await anext(aiter(watch))
        async with backend.watch(key, after=last) as watch:
            later = await backend.put(key, b"later")
            assert [event.revision for event in (await anext(aiter(watch))).events] == [later]

    _run_scenario(etcd, scenario)
