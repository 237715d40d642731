"""The recorder against a real server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from sampan.api.codec import json as json_codec
from sampan.api.types.core_v1 import ConfigMap, Event, Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.client import Client, ConnectionFailed, Events, Request, Response
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.clock import VirtualClock
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from tests.api_server import Server, serving

MAP = ConfigMap(metadata=ObjectMeta(name="m", namespace="a", uid="u", resourceVersion="7"))


@asynccontextmanager
async def recording(server: Server, client: Client | None = None) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client=client or server.client(), clock=server.clock, component="tester", host="here")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(recorder.run())
        yield recorder
        running.cancel()


async def recorded_events(server: Server) -> Sequence[Event]:
    events: Sequence[Event] = (await server.client().of(Event).list()).items
    return events


async def test_an_event_as_people_see_it() -> None:
    clock = VirtualClock()
    async with serving(clock) as server, recording(server) as recorder:
        recorder.event(MAP, NORMAL, "Changed", "it changed", annotations={"x": "1"})
        await clock.settle()
        (event,) = await recorded_events(server)
    assert event.metadata.name.startswith("m.")
    assert (event.metadata.namespace, event.metadata.annotations) == ("a", {"x": "1"})
    assert (event.type, event.reason, event.message, event.count) == ("Normal", "Changed", "it changed", 1)
    assert (event.source.component, event.source.host) == ("tester", "here")
    assert (event.reportingComponent, event.reportingInstance) == ("tester", "here")
    assert event.firstTimestamp == event.lastTimestamp == "2026-01-01T00:00:00Z"
    ref = event.involvedObject
    assert (ref.kind, ref.apiVersion, ref.namespace, ref.name, ref.uid) == ("ConfigMap", "v1", "a", "m", "u")
    assert ref.resourceVersion == "7"


async def test_events_of_another_host() -> None:
    clock = VirtualClock()
    async with serving(clock) as server, recording(server) as recorder:
        recorder.event(MAP, NORMAL, "Changed", "it changed", host="there")
        await clock.settle()
        (event,) = await recorded_events(server)
    assert (event.source.host, event.reportingInstance) == ("there", "there")


async def test_the_same_again_is_counted() -> None:
    clock = VirtualClock()
    async with serving(clock) as server, recording(server) as recorder:
        for _ in range(3):
            recorder.event(MAP, WARNING, "Failed", "it failed")
            await clock.advance(60)
        (event,) = await recorded_events(server)
        assert (event.count, event.firstTimestamp) == (3, "2026-01-01T00:00:00Z")
        assert event.lastTimestamp == "2026-01-01T00:02:00Z"
        await server.client().of(Event).delete(event.metadata.name, "a")
        recorder.event(MAP, WARNING, "Failed", "it failed")
        await clock.settle()
        (again,) = await recorded_events(server)
        assert again.count == 4


async def test_events_of_cluster_scoped_objects_are_in_default() -> None:
    clock = VirtualClock()
    async with serving(clock) as server, recording(server) as recorder:
        recorder.event(Namespace(metadata=ObjectMeta(name="n")), NORMAL, "Seen", "there it is")
        await clock.settle()
        (event,) = await recorded_events(server)
    assert event.metadata.namespace == "default"


class Unreachable:
    """A server that cannot be reached for a while."""

    def __init__(self, server: Server, failures: int) -> None:
        self._inner, self._failures = server.loopback, failures

    async def send(self, request: Request) -> Response:
        if self._failures > 0:
            self._failures -= 1
            raise ConnectionFailed("nobody there", may_have_happened=True)
        return await self._inner.send(request)

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        return self._inner.watch(request, codec)

    async def close(self) -> None:
        pass


async def test_a_server_that_is_away_for_a_while() -> None:
    clock = VirtualClock()
    async with serving(clock) as server:
        client = Client(transport=Unreachable(server, 3), clock=clock, component="test")
        async with recording(server, client) as recorder:
            recorder.event(MAP, NORMAL, "Changed", "it changed")
            await clock.advance(29)
            assert await recorded_events(server) == []
            await clock.advance(1)
            assert len(await recorded_events(server)) == 1


def test_nothing_that_goes_wrong_reaches_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with serving(clock) as server, recording(server) as recorder:
            recorder.event(object(), NORMAL, "Odd", "not an object")
            faulty = ConfigMap(metadata=ObjectMeta(name="m", namespace="Not_A_Namespace"))
            recorder.event(faulty, NORMAL, "Odd", "nobody can store it")
            recorder.event(MAP, NORMAL, "Fine", "and on it goes")
            await clock.settle()
            assert [event.reason for event in await recorded_events(server)] == ["Fine"]
            for number in range(11_000):
                recorder.event(MAP, NORMAL, "Flood", f"{number}")
            assert recorder.dropped == 1000

    asyncio.run(main())
    assert "cannot record an Event with reason Odd" in caplog.text
    assert "event Odd about m is refused" in caplog.text


async def test_two_recorders_may_speak_at_the_same_moment() -> None:
    clock = VirtualClock()
    async with serving(clock) as server, recording(server) as first, recording(server) as other:
        first.event(MAP, NORMAL, "First", "one")
        other.event(MAP, NORMAL, "Second", "other")
        await clock.settle()
        assert {event.reason for event in await recorded_events(server)} == {"First", "Second"}


class Counting:
    """Knows how many requests are under way, and lets them overlap."""

    def __init__(self, server: Server) -> None:
        self._inner, self.now, self.most = server.loopback, 0, 0
        self.messages: list[str] = []

    async def send(self, request: Request) -> Response:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.messages.append(json_codec.read_any(request.body).get("message", ""))
            return await self._inner.send(request)
        finally:
            self.now -= 1

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        return self._inner.watch(request, codec)

    async def close(self) -> None:
        pass


async def test_a_burst_is_sent_by_several_at_a_time() -> None:
    clock = VirtualClock()
    async with serving(clock) as server:
        counting = Counting(server)
        client = Client(transport=counting, clock=clock, component="test")
        async with recording(server, client) as recorder:
            for number in range(2000):
                about = ConfigMap(metadata=ObjectMeta(name=f"m{number}", namespace="a", uid=f"u{number}"))
                recorder.event(about, NORMAL, "Made", "it was made")
            await clock.settle()
            assert len(await recorded_events(server)) == 2000
        assert recorder.dropped == 0
        assert counting.most == 8


async def test_events_of_one_object_stay_in_order() -> None:
    clock = VirtualClock()
    async with serving(clock) as server:
        counting = Counting(server)
        client = Client(transport=counting, clock=clock, component="test")
        async with recording(server, client) as recorder:
            for number in range(5):
                recorder.event(MAP, NORMAL, "Step", f"{number}")
                recorder.event(MAP, NORMAL, "Again", "again")
            await clock.settle()
            again = [event for event in await recorded_events(server) if event.reason == "Again"]
        assert [event.count for event in again] == [5]
        assert [text for text in counting.messages if text.isdecimal()] == ["0", "1", "2", "3", "4"]


async def test_recorders_of_one_process_never_name_events_alike() -> None:
    clock = VirtualClock()
    async with serving(clock) as server:
        counting = Counting(server)
        client = Client(transport=counting, clock=clock, component="test")
        async with recording(server, client) as first, recording(server, client) as other:
            for number in range(20):
                first.event(MAP, NORMAL, "One", f"{number}")
                other.event(MAP, WARNING, "Other", f"{number}")
            await clock.settle()
        assert len(counting.messages) == one_each(await recorded_events(server)), "none was refused and named anew"


def one_each(events: Sequence[Event]) -> int:
    """The requests that these took: one to create each, one for each count more."""
    return sum(event.count for event in events)
