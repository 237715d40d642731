"""DNS: responses per second over real sockets, the CPU time of each, and that of a changed service."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Row
from benchmarks.processes import own_cpu_s
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.object_key import key_of
from sampan.machinery.telemetry.metrics import Metrics
from sampan.network.dns.cluster_dns import KnownClients
from sampan.network.dns.config import DnsServerConfig, ForwarderConfig, ZoneConfig
from sampan.network.dns.forwarder import Forwarder
from sampan.network.dns.record_table import RecordTable
from sampan.network.dns.records import service_records, slice_records
from sampan.network.dns.responder import Responder
from sampan.network.dns.server import DnsServer
from sampan.network.dns.status_port import duration_metric
from sampan.network.dns.upstreams import UpstreamConfig
from tests.network.dns.objects import endpoint, endpoint_slice, service

SERVICES, ENDPOINTS, QUERIES, WINDOW = 10_000, 10, 60_000, 64

_CLIENT = """
import socket, sys
port, total, window, names = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
import dns.message
queries = [dns.message.make_query(name, "A", use_edns=0).to_wire() for name in names]
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(("127.0.0.1", port))
client.settimeout(1)
sent = received = 0
while received < total:
    while sent - received < window and sent < total:
        client.send(queries[sent % len(queries)])
        sent += 1
    try:
        client.recv(4096)
    except TimeoutError:
        sent = received
        continue
    received += 1
"""


def rows() -> Iterator[Row]:
    table, build_s = _table()
    yield Row(f"table of {SERVICES:,} services of {ENDPOINTS} endpoints", build_s, "s", goal=5)
    yield Row("CPU of a changed EndpointSlice", _change_us(table), "us", goal=1000, note=f"of {SERVICES:,} services")
    kinds = {
        "services": [f"s{number}.default.svc.cluster.local" for number in range(0, 200, 2)],
        "headless services": [f"h{number}.default.svc.cluster.local" for number in range(1, 200, 2)],
        "names that do not exist": [f"x{number}.com.default.svc.cluster.local" for number in range(200)],
    }
    for what, names in kinds.items():
        per_s, cpu_us = asyncio.run(_serve(table, names))
        yield Row(
            f"responses a second, {what}", per_s, "/s", goal=20_000, note="over loopback, client in another process"
        )
        yield Row(f"CPU of a response, {what}", cpu_us, "us", goal=60, note="user and system time of the server")


def _table() -> tuple[RecordTable, float]:
    began = time.perf_counter()
    table = RecordTable(zone=ZoneConfig(), serial=1)
    table.add_namespace("default")
    for number in range(SERVICES):
        _set(table, number, "")
    return table, time.perf_counter() - began


def _set(table: RecordTable, number: int, hostname: str) -> None:
    is_headless = number % 2 if number < 200 else number % 10 == 0
    name = f"h{number}" if is_headless else f"s{number}"
    cluster_ip = "None" if is_headless else f"10.96.{number // 250}.{number % 250}"
    item = service(name, cluster_ip)
    base = number * ENDPOINTS
    endpoints = [
        endpoint(f"10.{128 + (base + place) // 65536}.{(base + place) // 256 % 256}.{(base + place) % 256}")
        for place in range(ENDPOINTS)
    ]
    if hostname:
        endpoints[0].hostname = hostname
    part = slice_records(endpoint_slice(name, *endpoints), publishes_not_ready=False)
    assert part is not None
    table.set_service(key_of(item), service_records(item, [part], table.zone))


def _change_us(table: RecordTable) -> float:
    began = time.process_time()
    for number in range(1000):
        _set(table, 10 * (number % 100) + 200, f"p{number}")
    return (time.process_time() - began) * 1000


async def _serve(table: RecordTable, names: list[str]) -> tuple[float, float]:
    responder = Responder(table=table, is_synced=lambda: True, on_probe=lambda name: False)
    responder.use_table()
    upstreams = UpstreamConfig(resolv_conf=Path(os.devnull))
    server = DnsServer(
        config=DnsServerConfig(port=0),
        namespace=NetworkNamespace(),
        addresses=["127.0.0.1"],
        responder=responder,
        forwarder=Forwarder(config=ForwarderConfig(upstreams=upstreams), clock=RealClock()),
        alias_ttl_s=5,
        durations=duration_metric(Metrics()),
        admits=KnownClients(addresses=[], client_cidrs=[], nodes=list, monotonic=time.monotonic).admits,
    )
    listening = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run(listening))
        await listening.wait()
        arguments = [sys.executable, "-c", _CLIENT, str(server.port), str(QUERIES), str(WINDOW), ",".join(names)]
        warm_up = await asyncio.create_subprocess_exec(*arguments[:4], "1000", *arguments[5:])
        await warm_up.wait()
        client = await asyncio.create_subprocess_exec(*arguments)
        await _first_query(server)
        cpu, began, before = own_cpu_s(), time.perf_counter(), _requests(server)
        await client.wait()
        handled = _requests(server) - before
        per_s, cpu_us = handled / (time.perf_counter() - began), (own_cpu_s() - cpu) / handled * 1e6
        task.cancel()
    return per_s, cpu_us


async def _first_query(server: DnsServer) -> None:
    before = _requests(server)
    while _requests(server) == before:  # noqa: ASYNC110 - nothing announces the first query
        await asyncio.sleep(0.001)


def _requests(server: DnsServer) -> int:
    return sum(sum(transport.requests.values()) for transport in server.transports)
