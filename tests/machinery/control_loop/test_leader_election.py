"""Leader election: the leases that a candidate writes, and two candidates on a virtual clock."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from sampan.api.types.coordination_v1 import Lease, LeaseSpec
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import Client, Request, Response
from sampan.machinery.control_loop.leader_election import (
    ElectionConfig,
    LeaderElector,
    LeadershipLost,
    ObservedLease,
    build_released_spec,
    claim,
)
from tests.api_server import Server, running_api_server

CONFIG = ElectionConfig(name="election", identity="me")
START = 1_767_225_600.0


def lease(holder: str, *, transitions: int = 3) -> LeaseSpec:
    return LeaseSpec(
        holderIdentity=holder,
        leaseDurationSeconds=15,
        acquireTime="2025-01-01T00:00:00.000000Z",
        renewTime="2099-01-01T00:00:00.000000Z",
        leaseTransitions=transitions,
    )


@pytest.mark.parametrize(
    ("observed", "transitions", "keeps_time"),
    [
        pytest.param(None, 0, False, id="no lease"),
        pytest.param(ObservedLease(lease("me"), START), 3, True, id="own lease"),
        pytest.param(ObservedLease(lease("other"), START - 14.9), None, False, id="valid lease of another candidate"),
        pytest.param(ObservedLease(lease("other"), START - 15), 4, False, id="expired lease of another candidate"),
        pytest.param(ObservedLease(lease(""), START), 4, False, id="released lease"),
    ],
)
def test_claim_of_a_lease(observed: ObservedLease | None, transitions: int | None, keeps_time: bool) -> None:
    claimed = claim(observed, CONFIG, now=START, monotonic=START)
    if transitions is None:
        assert claimed is None
        return
    assert claimed is not None
    assert (claimed.holderIdentity, claimed.leaseDurationSeconds) == ("me", 15)
    assert claimed.leaseTransitions == transitions
    assert claimed.renewTime == "2026-01-01T00:00:00.000000Z"
    assert (claimed.acquireTime == "2025-01-01T00:00:00.000000Z") is keeps_time


def test_released_lease_has_no_holder() -> None:
    lease_ = build_released_spec(lease("me"), START)
    assert (lease_.holderIdentity, lease_.leaseDurationSeconds, lease_.leaseTransitions) == ("", 1, 3)


@pytest.mark.parametrize(("lease_s", "renew_s", "retry_s"), [(10, 10, 2), (15, 2, 2)])
def test_invalid_durations_are_rejected(lease_s: int, renew_s: float, retry_s: float) -> None:
    with pytest.raises(ValueError, match="must exceed the renew deadline"):
        ElectionConfig(name="election", identity="me", lease_s=lease_s, renew_s=renew_s, retry_s=retry_s)


class CuttableTransport:
    """A transport whose connection can be cut."""

    def __init__(self, server: Server) -> None:
        self._inner = server.loopback
        self.is_disconnected = False

    async def send(self, request: Request) -> Response:
        if self.is_disconnected:
            raise errors.service_unavailable("cut")
        return await self._inner.send(request)

    def watch(self, *args: object) -> object:
        raise NotImplementedError

    async def close(self) -> None:
        pass


@dataclass
class Candidate:
    name: str
    server: Server
    leading: list[str] = field(default_factory=list)
    ended: str = ""

    def __post_init__(self) -> None:
        self.transport = CuttableTransport(self.server)
        client = Client(transport=self.transport, clock=self.server.clock, component="test")  # type: ignore[arg-type]
        config = ElectionConfig(name="election", identity=self.name)
        self.elector = LeaderElector(client=client, clock=self.server.clock, config=config)

    async def run(self) -> None:
        try:
            await self.elector.run(self._lead)
        except LeadershipLost:
            self.ended = "lost"

    async def _lead(self) -> None:
        self.leading.append(self.name)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.leading.remove(self.name)


Body = Callable[[VirtualClock, Server, Candidate, Candidate, list[asyncio.Task[None]]], Awaitable[None]]


def run(body: Body) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with asyncio.timeout(60), running_api_server(clock) as server, asyncio.TaskGroup() as group:
            leading: list[str] = []
            first, other = Candidate("one", server, leading), Candidate("other", server, leading)
            tasks = []
            for candidate in (first, other):
                tasks.append(group.create_task(candidate.run()))
                await clock.settle()
            await body(clock, server, first, other, tasks)
            for task in tasks:
                task.cancel()

    asyncio.run(main())


def test_first_candidate_leads_and_renews_the_lease() -> None:
    async def body(
        clock: VirtualClock, server: Server, first: Candidate, other: Candidate, tasks: list[asyncio.Task[None]]
    ) -> None:
        await clock.advance(100)
        assert first.leading == ["one"]
        assert (first.elector.is_leader, other.elector.is_leader) == (True, False)
        assert other.elector.leader == "one"
        spec = (await server.client().for_kind(Lease).get("election", "kube-system")).spec
        assert (spec.holderIdentity, spec.leaseTransitions) == ("one", 0)
        assert spec.acquireTime == "2026-01-01T00:00:00.000000Z"
        assert spec.renewTime == "2026-01-01T00:01:40.000000Z"

    run(body)


def test_stopped_leader_releases_the_lease_for_the_next_candidate() -> None:
    async def body(
        clock: VirtualClock, server: Server, first: Candidate, other: Candidate, tasks: list[asyncio.Task[None]]
    ) -> None:
        await clock.advance(5)
        tasks[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]
        assert first.leading == []
        spec = (await server.client().for_kind(Lease).get("election", "kube-system")).spec
        assert spec.holderIdentity == ""
        await clock.advance(2.4)
        assert other.leading == ["other"]
        spec = (await server.client().for_kind(Lease).get("election", "kube-system")).spec
        assert spec.leaseTransitions == 1

    run(body)


def test_disconnected_leader_stops_before_the_next_candidate_leads() -> None:
    async def body(
        clock: VirtualClock, server: Server, first: Candidate, other: Candidate, tasks: list[asyncio.Task[None]]
    ) -> None:
        await clock.advance(5)
        first.transport.is_disconnected = True
        history = []
        for _ in range(200):
            await clock.advance(0.1)
            history.append(tuple(first.leading))
            assert len(first.leading) <= 1
        assert first.ended == "lost"
        assert history[0] == ("one",)
        assert () in history
        assert history[-1] == ("other",)
        assert history.index(()) >= 80, "the leader continues until its renew deadline"

    run(body)


def test_leader_survives_a_short_disconnection() -> None:
    async def body(
        clock: VirtualClock, server: Server, first: Candidate, other: Candidate, tasks: list[asyncio.Task[None]]
    ) -> None:
        await clock.advance(5)
        first.transport.is_disconnected = True
        await clock.advance(7)
        first.transport.is_disconnected = False
        await clock.advance(30)
        assert first.leading == ["one"]

    run(body)


def test_leader_stops_when_the_lease_has_another_holder() -> None:
    async def body(
        clock: VirtualClock, server: Server, first: Candidate, other: Candidate, tasks: list[asyncio.Task[None]]
    ) -> None:
        await clock.advance(1)
        patch = {"spec": {"holderIdentity": "stranger"}}
        await server.client().for_kind(Lease).patch("election", patch, "kube-system")
        await clock.advance(2)
        assert first.ended == "lost"

    run(body)


async def test_lease_is_released_when_the_work_is_done() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server:
        done = []

        async def lead() -> None:
            done.append(True)

        elector = LeaderElector(client=server.client(), clock=clock, config=CONFIG)
        await elector.run(lead)
        assert done
        assert not elector.is_leader
        assert (await server.client().for_kind(Lease).get("election", "kube-system")).spec.holderIdentity == ""


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
def test_wall_clock_jump_does_not_change_the_leader(jump_s: int) -> None:
    async def body(
        clock: VirtualClock, server: Server, first: Candidate, other: Candidate, tasks: list[asyncio.Task[None]]
    ) -> None:
        await clock.advance(5)
        clock.set_wall_clock(clock.now() + jump_s)
        await clock.advance(60)
        assert first.leading == ["one"]
        assert (await server.client().for_kind(Lease).get("election", "kube-system")).spec.leaseTransitions == 0
        first.transport.is_disconnected = True
        clock.set_wall_clock(clock.now() - jump_s)
        await clock.advance(7)
        assert first.leading == ["one"]
        await clock.advance(14)
        assert (first.ended, other.leading) == ("lost", ["other"])

    run(body)


async def test_leadership_lost_is_raised_even_if_the_work_fails() -> None:
    clock = VirtualClock()
    async with asyncio.timeout(60), running_api_server(clock) as server:
        first = Candidate("one", server)
        task = asyncio.ensure_future(first.elector.run(_fail_when_cancelled))
        await clock.settle()
        first.transport.is_disconnected = True
        await clock.advance(15)
        with pytest.raises(LeadershipLost, match="one lost lease election"):
            await task


async def _fail_when_cancelled() -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        raise ValueError("the work failed")
