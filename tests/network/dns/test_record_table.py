"""After any sequence of changes, the table equals one that is built from the final objects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Namespace, ObjectReference, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import RealClock
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.telemetry.flight_recorder import FlightRecorder, PodAddressTrace
from sampan.network.dns.config import ZoneConfig
from sampan.network.dns.record_table import RecordSource, RecordTable
from tests.network.dns.objects import answer_texts, ask, endpoint, endpoint_slice, record_table, responder_of, service

ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"])
HOSTNAMES = st.sampled_from([None, None, "a", "b"])
ENDPOINTS = st.builds(endpoint, ADDRESSES, HOSTNAMES, st.sampled_from([True, False, None]))
ENDPOINTS6 = st.builds(endpoint, st.sampled_from(["fd00::1", "fd00::2"]), HOSTNAMES)
SERVICES = st.sampled_from(["one", "two"])
PORTS = st.lists(st.sampled_from([("http", "TCP", 80), ("dns", "UDP", 53), ("", "TCP", 9)]), max_size=2)
SERVICE = st.one_of(
    st.builds(
        service,
        SERVICES,
        st.sampled_from(["10.96.0.1", "10.0.0.1", "None"]),
        ports=PORTS,
        publishes_not_ready=st.booleans(),
    ),
    st.builds(service, SERVICES, external_name=st.sampled_from(["example.com", "one.default.svc.cluster.local"])),
)
SLICE = st.one_of(
    st.builds(
        lambda name, service_name, endpoints, ports: endpoint_slice(service_name, *endpoints, name=name, ports=ports),
        st.sampled_from(["s1", "s2"]),
        SERVICES,
        st.lists(ENDPOINTS, max_size=3),
        PORTS,
    ),
    st.builds(
        lambda service_name, endpoints: endpoint_slice(service_name, *endpoints, name="s6", family="IPv6"),
        SERVICES,
        st.lists(ENDPOINTS6, max_size=2),
    ),
)
CHANGES = st.lists(
    st.one_of(
        SERVICE,
        SLICE,
        SERVICES,
        st.sampled_from(["s1", "s2", "s6"]),
        st.sampled_from(["add default", "remove default"]),
    ),
    max_size=20,
)


class Feed:
    """Informers that the test fills, with a record source that follows their changes."""

    def __init__(self) -> None:
        self.informers = InformerFactory(client=Client(transport=None, clock=RealClock(), component="test"))  # type: ignore[arg-type]
        self.table = RecordTable(zone=ZoneConfig(), serial=1)
        self.recorder = FlightRecorder(clock=RealClock())
        self.trace = PodAddressTrace(recorder=self.recorder, component="dns", action="add to DNS")
        self.source = RecordSource(table=self.table, informers=self.informers, trace=self.trace)
        self._versions = count(1)
        for type in (Service, EndpointSlice, Namespace):
            self.informers.for_kind(type).synced.set()

    def put(self, obj: Any) -> None:
        stored = copy_of(obj)
        stored.metadata.resourceVersion = str(next(self._versions))
        self.informers.for_kind(type(obj))._put(key_of(obj), stored)

    def remove(self, type: type[Any], name: str, namespace: str = "default") -> None:
        self.informers.for_kind(type)._remove(NamespacedName(namespace, name))

    def change(self, change: Any) -> None:
        if not isinstance(change, str):
            self.put(change)
        elif change == "add default":
            self.put(Namespace(metadata=ObjectMeta(name="default")))
        elif change == "remove default":
            self.remove(Namespace, "default", "")
        else:
            self.remove(EndpointSlice if change.startswith("s") else Service, change)

    def build_table(self) -> RecordTable:
        slices = sorted(self.informers.for_kind(EndpointSlice).lister, key=lambda item: item.metadata.name)
        namespaces = [item.metadata.name for item in self.informers.for_kind(Namespace).lister]
        services = [
            (item, [part for part in slices if item.metadata.name in part.metadata.labels.values()])
            for item in self.informers.for_kind(Service).lister
        ]
        return record_table(services, namespaces)


def contents(table: RecordTable) -> tuple[dict[bytes, bytes], dict[bytes, int]]:
    return {key: records.counts + records.body for key, records in table.record_sets.items()}, table.names


async def _apply_batches(batches: Sequence[Sequence[Any]]) -> None:
    feed = Feed()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(feed.source.run())
        await feed.source.synced.wait()
        for batch in batches:
            for change in batch:
                feed.change(change)
            for _ in range(3):
                await asyncio.sleep(0)
            assert contents(feed.table) == contents(feed.build_table())
        task.cancel()


@settings(max_examples=300, deadline=None)
@given(st.lists(CHANGES, max_size=4))
def test_incremental_changes_lead_to_the_same_table_as_a_rebuild(batches: list[list[Any]]) -> None:
    asyncio.run(_apply_batches(batches))


def test_a_name_exists_as_soon_as_its_service_does() -> None:
    async def work() -> None:
        feed = Feed()
        responder = responder_of(feed.table)
        name = "late.default.svc.cluster.local"
        async with asyncio.TaskGroup() as group:
            task = group.create_task(feed.source.run())
            await feed.source.synced.wait()
            assert answer_texts(ask(responder, name)) == ["NXDOMAIN"]
            feed.put(service("late", "10.96.0.3"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert answer_texts(ask(responder, name)) == ["A 10.96.0.3"]
            feed.remove(Service, "late")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert answer_texts(ask(responder, name)) == ["NXDOMAIN"]
            task.cancel()

    asyncio.run(work())


def test_removing_everything_leaves_only_the_zone() -> None:
    table, empty = record_table([(service("one", "10.96.0.1"), [])]), record_table([])
    table.set_service(NamespacedName("default", "one"), None)
    assert contents(table) == contents(empty)
    table.remove_namespace("default")
    table.remove_namespace("kube-system")
    assert contents(table) == contents(record_table([], ()))


def test_flight_recorder_traces_pods_that_become_ready_endpoints() -> None:
    def slice_with(*ready: bool) -> EndpointSlice:
        endpoints = [endpoint(f"10.0.0.{number}", None, is_ready) for number, is_ready in enumerate(ready, start=1)]
        for number, entry in enumerate(endpoints, start=1):
            entry.targetRef = ObjectReference(kind="Pod", namespace="default", name=f"p{number}", uid=f"u{number}")
        return endpoint_slice("late", *endpoints, name="s1")

    async def work() -> None:
        feed = Feed()
        feed.put(service("late", "10.96.0.3"))
        feed.put(slice_with(True))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(feed.source.run())
            await feed.source.synced.wait()
            assert len(feed.recorder) == 0, "the first pod is older than the server"
            for ready in ((True, False), (True, True), (True, True)):
                feed.put(slice_with(*ready))
                for _ in range(3):
                    await asyncio.sleep(0)
            task.cancel()
        [record] = feed.recorder.records_since()
        assert (record.subject, record.uid) == ("pods/default/p2", "u2")
        assert record.outcome == "late.default.svc: cluster IP 10.96.0.3"

    asyncio.run(work())
