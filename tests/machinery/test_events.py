"""EventRecorder, with an API server in this process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from sampan.api.codec import json as json_codec
from sampan.api.types.core_v1 import ConfigMap, Event, Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import VirtualClock
from sampan.machinery.client import Client, ConnectionFailed, Events, Request, Response
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from tests.api_server import Server, running_api_server

MAP = ConfigMap(metadata=ObjectMeta(name="m", namespace="a", uid="u", resourceVersion="7"))


@asynccontextmanager
async def running_recorder(server: Server, client: Client | None = None) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client=client or server.client(), clock=server.clock, component="tester", host="here")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(recorder.run())
        yield recorder
        running.cancel()


async def list_events(server: Server) -> Sequence[Event]:
    events: Sequence[Event] = (await server.client().for_kind(Event).list()).items
    return events


async def test_fields_of_a_recorded_event() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server, running_recorder(server) as recorder:
        recorder.event(MAP, NORMAL, "Changed", "it changed", annotations={"x": "1"})
        await clock.settle()
        (event,) = await list_events(server)
    assert event.metadata.name.startswith("m.")
    assert (event.metadata.namespace, event.metadata.annotations) == ("a", {"x": "1"})
    assert (event.type, event.reason, event.message, event.count) == ("Normal", "Changed", "it changed", 1)
    assert (event.source.component, event.source.host) == ("tester", "here")
    assert (event.reportingComponent, event.reportingInstance) == ("tester", "here")
    assert event.firstTimestamp == event.lastTimestamp == "2026-01-01T00:00:00Z"
    ref = event.involvedObject
    assert (ref.kind, ref.apiVersion, ref.namespace, ref.name, ref.uid) == ("ConfigMap", "v1", "a", "m", "u")
    assert ref.resourceVersion == "7"


async def test_host_of_an_event_can_be_overridden() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server, running_recorder(server) as recorder:
        recorder.event(MAP, NORMAL, "Changed", "it changed", host="there")
        await clock.settle()
        (event,) = await list_events(server)
    assert (event.source.host, event.reportingInstance) == ("there", "there")


async def test_repeated_event_increments_the_count() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server, running_recorder(server) as recorder:
        for _ in range(3):
            recorder.event(MAP, WARNING, "Failed", "it failed")
            await clock.advance(60)
        (event,) = await list_events(server)
        assert (event.count, event.firstTimestamp) == (3, "2026-01-01T00:00:00Z")
        assert event.lastTimestamp == "2026-01-01T00:02:00Z"
        await server.client().for_kind(Event).delete(event.metadata.name, "a")
        recorder.event(MAP, WARNING, "Failed", "it failed")
        await clock.settle()
        (again,) = await list_events(server)
        assert again.count == 4


async def test_events_of_cluster_scoped_objects_are_in_default() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server, running_recorder(server) as recorder:
        recorder.event(Namespace(metadata=ObjectMeta(name="n")), NORMAL, "Seen", "it was seen")
        await clock.settle()
        (event,) = await list_events(server)
    assert event.metadata.namespace == "default"


class FailingTransport:
    """A transport whose first requests fail."""

    def __init__(self, server: Server, failures: int) -> None:
        self._inner, self._failures = server.loopback, failures

    async def send(self, request: Request) -> Response:
        if self._failures > 0:
            self._failures -= 1
            raise ConnectionFailed("connection refused", may_have_happened=True)
        return await self._inner.send(request)

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        return self._inner.watch(request, codec)

    async def close(self) -> None:
        pass


async def test_event_is_resent_after_connection_failures() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server:
        client = Client(transport=FailingTransport(server, 3), clock=clock, component="test")
        async with running_recorder(server, client) as recorder:
            recorder.event(MAP, NORMAL, "Changed", "it changed")
            await clock.advance(29)
            assert await list_events(server) == []
            await clock.advance(1)
            assert len(await list_events(server)) == 1


def test_recorder_logs_errors_and_drops_excess_events(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with running_api_server(clock) as server, running_recorder(server) as recorder:
            recorder.event(object(), NORMAL, "Odd", "not an object")
            faulty = ConfigMap(metadata=ObjectMeta(name="m", namespace="Not_A_Namespace"))
            recorder.event(faulty, NORMAL, "Odd", "invalid namespace")
            recorder.event(MAP, NORMAL, "Fine", "valid")
            await clock.settle()
            assert [event.reason for event in await list_events(server)] == ["Fine"]
            for number in range(11_000):
                recorder.event(MAP, NORMAL, "Flood", f"{number}")
            assert recorder.dropped == 1000

    asyncio.run(main())
    assert "cannot record an Event with reason Odd" in caplog.text
    assert "event Odd about m is refused" in caplog.text


async def test_two_recorders_record_events_of_one_object_at_the_same_time() -> None:
    clock = VirtualClock()
    async with (
        running_api_server(clock) as server,
        running_recorder(server) as first,
        running_recorder(server) as other,
    ):
        first.event(MAP, NORMAL, "First", "one")
        other.event(MAP, NORMAL, "Second", "other")
        await clock.settle()
        assert {event.reason for event in await list_events(server)} == {"First", "Second"}


class CountingTransport:
    """A transport that counts concurrent requests and records the messages of events."""

    def __init__(self, server: Server) -> None:
        self._inner, self.active, self.most_active = server.loopback, 0, 0
        self.messages: list[str] = []

    async def send(self, request: Request) -> Response:
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.messages.append(json_codec.read_any(request.body).get("message", ""))
            return await self._inner.send(request)
        finally:
            self.active -= 1

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        return self._inner.watch(request, codec)

    async def close(self) -> None:
        pass


async def test_burst_of_events_is_sent_with_8_concurrent_requests() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server:
        counting = CountingTransport(server)
        client = Client(transport=counting, clock=clock, component="test")
        async with running_recorder(server, client) as recorder:
            for number in range(200):
                config_map = ConfigMap(metadata=ObjectMeta(name=f"m{number}", namespace="a", uid=f"u{number}"))
                recorder.event(config_map, NORMAL, "Created", "it was created")
            await clock.settle()
            assert len(await list_events(server)) == 200
        assert recorder.dropped == 0
        assert counting.most_active == 8


async def test_events_of_one_object_stay_in_order() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server:
        counting = CountingTransport(server)
        client = Client(transport=counting, clock=clock, component="test")
        async with running_recorder(server, client) as recorder:
            for number in range(5):
                recorder.event(MAP, NORMAL, "Step", f"{number}")
                recorder.event(MAP, NORMAL, "Again", "again")
            await clock.settle()
            again = [event for event in await list_events(server) if event.reason == "Again"]
        assert [event.count for event in again] == [5]
        assert [text for text in counting.messages if text.isdecimal()] == ["0", "1", "2", "3", "4"]


async def test_recorders_of_one_process_generate_unique_event_names() -> None:
    clock = VirtualClock()
    async with running_api_server(clock) as server:
        counting = CountingTransport(server)
        client = Client(transport=counting, clock=clock, component="test")
        async with running_recorder(server, client) as first, running_recorder(server, client) as other:
            for number in range(20):
                first.event(MAP, NORMAL, "One", f"{number}")
                other.event(MAP, WARNING, "Other", f"{number}")
            await clock.settle()
        assert len(counting.messages) == request_count(await list_events(server)), "no event was rejected and renamed"


def request_count(events: Sequence[Event]) -> int:
    """Return how many requests these events took: one for each occurrence."""
    return sum(event.count for event in events)
