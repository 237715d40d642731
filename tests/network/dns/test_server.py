"""The server with real sockets: UDP, TCP, bounds of connections, health and metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import dns.asyncquery
import dns.flags
import dns.message

from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.telemetry.metrics import Metrics
from sampan.network.dns.cluster_dns import KnownClients
from sampan.network.dns.config import DnsServerConfig, ForwarderConfig
from sampan.network.dns.forwarder import Forwarder
from sampan.network.dns.server import DnsServer
from sampan.network.dns.status_port import duration_metric, export_dns, status_port
from sampan.network.dns.upstreams import UpstreamAddress, UpstreamConfig
from tests.eventually import eventually
from tests.network.dns.objects import answer_texts, endpoint, endpoint_slice, record_table, responder_of, service
from tests.network.dns.upstream import FakeUpstream, reply
from tests.network.pods.lab import NODE_IP, OUTSIDE_IP, Lab, needs_network

WEB = "web.default.svc.cluster.local."


@dataclass
class RunningDnsServer:
    server: DnsServer
    metrics: Metrics

    async def ask(
        self, name: str, type: str = "A", *, over: str = "udp", address: str = "127.0.0.1", **options: Any
    ) -> dns.message.Message:
        query = dns.message.make_query(name, type, **options)
        send = dns.asyncquery.udp if over == "udp" else dns.asyncquery.tcp
        return await send(query, address, port=self.server.port, timeout=10)


@asynccontextmanager
async def running_dns_server(*upstreams: UpstreamAddress, **settings: Any) -> AsyncIterator[RunningDnsServer]:
    many = [endpoint(f"10.0.0.{number}") for number in range(200)]
    table = record_table(
        [
            (service("web", "10.96.0.5"), []),
            (service("many", "None"), [endpoint_slice("many", *many)]),
            (service("out", external_name="www.example.com"), []),
        ]
    )
    upstream_config = UpstreamConfig(servers=upstreams, resolv_conf=Path("/dev/null"))
    forwarder = Forwarder(config=ForwarderConfig(upstreams=upstream_config), clock=RealClock())
    metrics = Metrics()
    clients = KnownClients(addresses=[], client_cidrs=[], nodes=list, monotonic=lambda: 0.0)
    server = DnsServer(
        config=DnsServerConfig(**{"port": 0, **settings}),
        namespace=NetworkNamespace(),
        addresses=["127.0.0.1", "::1"],
        responder=responder_of(table),
        forwarder=forwarder,
        alias_ttl_s=5,
        durations=duration_metric(metrics),
        admits=clients.admits,
    )
    export_dns(metrics, server=server, forwarder=forwarder, table=table)
    listening = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(forwarder.run()), group.create_task(server.run(listening))]
        await listening.wait()
        try:
            yield RunningDnsServer(server, metrics)
        finally:
            for task in tasks:
                task.cancel()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def run_with_timeout() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(run_with_timeout())


def test_cluster_and_external_names_resolve_over_udp_and_tcp() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.1")) as upstream,
            running_dns_server(upstream.address) as served,
        ):
            for over in ("udp", "tcp"):
                assert answer_texts(await served.ask(WEB, over=over)) == ["A 10.96.0.5"]
                assert answer_texts(await served.ask("none." + WEB, over=over)) == ["NXDOMAIN"]
                assert answer_texts(await served.ask("www.example.com", over=over)) == ["A 192.0.2.1"]
                alias = await served.ask("out.default.svc.cluster.local", over=over)
                assert answer_texts(alias) == ["A 192.0.2.1", "CNAME www.example.com."]
            assert len(upstream.queries) == 1
            assert (await served.ask("many.default.svc.cluster.local")).flags & dns.flags.TC
            whole, used_tcp = await dns.asyncquery.udp_with_fallback(
                dns.message.make_query("many.default.svc.cluster.local", "A"), "127.0.0.1", port=served.server.port
            )
            assert used_tcp
            assert len(whole.answer[0]) == 200
            text = served.metrics.text().replace('server="dns://:53",zone=".",view="",', "")
            assert 'coredns_dns_requests_total{proto="tcp",family="1",type="A"}' in text
            assert 'coredns_dns_responses_total{rcode="NXDOMAIN",plugin=""} 2' in text
            assert f'coredns_forward_responses_total{{to="{upstream.address}",rcode="NOERROR"}} 1' in text
            assert 'coredns_dns_request_duration_seconds_count{proto="udp",family="1"}' in text

    run(main)


def test_queries_of_a_connection_are_pipelined() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.1")) as upstream,
            running_dns_server(upstream.address) as served,
        ):
            reader, writer = await asyncio.open_connection("::1", served.server.port)
            names = [WEB if number % 2 else f"n{number}.example.com" for number in range(100)]
            for number, name in enumerate(names):
                wire = dns.message.make_query(name, "A", id=number).to_wire()
                writer.write(len(wire).to_bytes(2, "big") + wire)
            ids = set()
            for _ in names:
                size = int.from_bytes(await reader.readexactly(2), "big")
                message = dns.message.from_wire(await reader.readexactly(size))
                assert len(answer_texts(message)) == 1
                ids.add(message.id)
            assert len(ids) == 100
            writer.close()

    run(main)


def test_idle_and_superfluous_connections_are_closed() -> None:
    async def main() -> None:
        async with running_dns_server(idle_s=0.2, max_connections=2) as served:
            connections = [await asyncio.open_connection("127.0.0.1", served.server.port) for _ in range(2)]
            extra, extra_writer = await asyncio.open_connection("127.0.0.1", served.server.port)
            with suppress(ConnectionResetError):
                assert await extra.read() == b""
            connections[0][1].write(b"\x00")  # an unfinished message counts as idle
            for reader, _ in connections:
                assert await reader.read() == b""
            for _, writer in [*connections, (extra, extra_writer)]:
                writer.close()
            assert answer_texts(await served.ask(WEB, over="tcp")) == ["A 10.96.0.5"]

    run(main)


def test_connections_per_client_are_limited() -> None:
    async def main() -> None:
        async with running_dns_server(max_connections=4, max_connections_per_client=2) as served:
            held = [await asyncio.open_connection("127.0.0.1", served.server.port) for _ in range(4)]
            for reader, _ in held[2:]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
            other, writer = await asyncio.open_connection("::1", served.server.port)
            query = dns.message.make_query(WEB, "A").to_wire()
            writer.write(len(query).to_bytes(2, "big") + query)
            size = int.from_bytes(await other.readexactly(2), "big")
            assert answer_texts(dns.message.from_wire(await other.readexactly(size))) == ["A 10.96.0.5"]
            for _, held_writer in [*held, (other, writer)]:
                held_writer.close()

    run(main)


def test_forwarded_queries_per_client_are_limited() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            upstream = UpstreamAddress("127.0.0.1", silent.getsockname()[1])
            async with running_dns_server(upstream, max_pending=4, max_pending_per_client=2) as served:
                first = [asyncio.create_task(served.ask(f"n{number}.example.com")) for number in range(2)]
                await eventually(lambda: served.server._pending.total == 2)
                assert answer_texts(await served.ask("n9.example.com")) == ["REFUSED"]
                second = asyncio.create_task(served.ask("n9.example.com", address="::1"))
                await eventually(lambda: served.server._pending["::1"] == 1)
                for task in (*first, second):
                    task.cancel()
                await asyncio.wait([*first, second])

    run(main)


def test_hostile_datagrams_do_not_stop_the_server() -> None:
    async def main() -> None:
        async with running_dns_server() as served:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                for data in (
                    b"",
                    b"\0" * 11,
                    b"\xff" * 600,
                    b"\0" * 4096,
                    dns.message.make_query(WEB, "A").to_wire()[:-1],
                ):
                    client.sendto(data, ("127.0.0.1", served.server.port))
            assert answer_texts(await served.ask(WEB)) == ["A 10.96.0.5"]

    run(main)


def test_server_uses_another_port_if_the_configured_port_is_taken() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as occupied:
            occupied.bind(("127.0.0.1", 0))
            number = occupied.getsockname()[1]
            async with running_dns_server(port=number) as served:
                assert served.server.port not in (0, number)
                assert answer_texts(await served.ask(WEB)) == ["A 10.96.0.5"]

    run(main)


def test_health_readiness_and_metrics() -> None:
    async def main() -> None:
        is_ready, is_admitted = False, True
        metrics = Metrics()
        metrics.counter("one_total", "One.").labels().inc()
        port = status_port(
            namespace=NetworkNamespace(),
            address="127.0.0.1",
            metrics=metrics,
            is_ready=lambda: is_ready,
            admits=lambda address: is_admitted,
        )
        async with port as number, aiohttp.ClientSession() as session:

            async def status(path: str) -> int:
                async with session.get(f"http://127.0.0.1:{number}{path}") as response:
                    return response.status

            assert [await status(path) for path in ("/health", "/ready", "/metrics", "/x")] == [200, 503, 200, 404]
            is_ready = True
            assert await status("/ready") == 200
            is_admitted = False
            assert await status("/metrics") == 403

    run(main)


@needs_network
def test_server_in_a_namespace_forwards_from_the_namespace_of_the_process(tmp_path: Path) -> None:
    """The server listens inside the namespace of the node, from which the upstream resolver is not reachable."""
    lab = Lab(tmp_path)

    async def main() -> None:
        async with FakeUpstream(lambda query, _: reply(query, "A 192.0.2.9")) as upstream:
            table = record_table([(service("web", "10.96.0.5"), [])])
            upstream_config = UpstreamConfig(servers=[upstream.address])
            forwarder = Forwarder(config=ForwarderConfig(upstreams=upstream_config), clock=RealClock())
            server = DnsServer(
                config=DnsServerConfig(port=53),
                namespace=NetworkNamespace(lab.outside),
                addresses=[OUTSIDE_IP],
                responder=responder_of(table),
                forwarder=forwarder,
                alias_ttl_s=5,
                durations=duration_metric(Metrics()),
                admits=lambda address: address == NODE_IP,
            )
            listening = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(forwarder.run()), group.create_task(server.run(listening))]
                await listening.wait()
                assert server.port == 53
                for name, expected in ((WEB, "A 10.96.0.5"), ("www.example.com", "A 192.0.2.9")):
                    assert answer_texts(await asyncio.to_thread(_ask_from, lab, name)) == [expected]
                for task in tasks:
                    task.cancel()

    try:
        run(main)
    finally:
        lab.close()


def _ask_from(lab: Lab, name: str) -> dns.message.Message:
    import dns.query

    from sampan.host.linux.network_namespace import run_in_network

    return run_in_network(lab.node, lambda: dns.query.udp(dns.message.make_query(name, "A"), OUTSIDE_IP, timeout=10))
