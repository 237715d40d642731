"""Forwarding to upstream resolvers: cache, failover, truncation, spoofing, bounds and loops."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import pytest

from sampan.host.clock import RealClock, VirtualClock
from sampan.network.dns import forwarder as forwarder_module
from sampan.network.dns.config import ForwarderConfig
from sampan.network.dns.forwarder import Forwarder
from sampan.network.dns.responder import ForwardDecision
from sampan.network.dns.upstreams import UpstreamAddress, UpstreamConfig
from sampan.network.dns.wire import name_bytes, parse_query
from tests.eventually import eventually
from tests.network.dns.objects import answer_texts
from tests.network.dns.upstream import FakeUpstream, denial, reply


class ShiftedClock(RealClock):
    """A real clock whose monotonic time a test moves forward."""

    moved_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.moved_s


@asynccontextmanager
async def running_forwarder(
    *servers: UpstreamAddress, **settings: Any
) -> AsyncIterator[tuple[Forwarder, ShiftedClock]]:
    stubs = settings.pop("stub_domains", {})
    clock = ShiftedClock()
    upstreams = UpstreamConfig(servers=servers, stub_domains=stubs, resolv_conf=Path("/dev/null"))
    forwarder = Forwarder(config=ForwarderConfig(upstreams=upstreams, **settings), clock=clock)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(forwarder.run())
        await asyncio.sleep(0)
        try:
            yield forwarder, clock
        finally:
            task.cancel()


def forward(name: str, type: str = "A", aliases: tuple[str, ...] = (), **options: Any) -> ForwardDecision:
    query = parse_query(dns.message.make_query(name, type, **options).to_wire())
    return ForwardDecision(query, tuple(map(name_bytes, aliases)))


async def resolve(forwarder: Forwarder, name: str, type: str = "A", **options: Any) -> dns.message.Message:
    decision = forward(name, type, **options)
    message = forwarder.cached_response(decision)
    return dns.message.from_wire(message if message is not None else await forwarder.resolve(decision, ttl_s=5))


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def run_with_timeout() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(run_with_timeout())


def test_responses_are_cached_and_their_ttls_count_down() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.1 | 192.0.2.2", ttl_s=20)) as upstream,
            running_forwarder(upstream.address) as (forwarder, clock),
        ):
            first = await resolve(forwarder, "Example.com", use_edns=0)
            assert answer_texts(first) == ["A 192.0.2.1", "A 192.0.2.2"]
            assert first.question[0].name.to_text() == "Example.com."
            assert first.edns == 0
            clock.moved_s = 7
            second = await resolve(forwarder, "EXAMPLE.COM")
            assert second.answer[0].ttl == 13
            assert second.answer[0].name.to_text() == "EXAMPLE.COM."
            assert second.edns == -1
            clock.moved_s = 21
            assert (await resolve(forwarder, "example.com")).answer[0].ttl == 20
            assert len(upstream.queries) == 2
            assert (forwarder.counts.cache_hits, forwarder.counts.cache_misses) == (1, 2)
            assert forwarder.cache_entries == 1

    run(main)


def test_nxdomain_responses_are_cached_for_a_short_time() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: denial(query)) as upstream,
            running_forwarder(upstream.address) as (forwarder, clock),
        ):
            assert answer_texts(await resolve(forwarder, "none.example")) == ["NXDOMAIN"]
            clock.moved_s = 4
            assert answer_texts(await resolve(forwarder, "none.example")) == ["NXDOMAIN"]
            assert len(upstream.queries) == 1
            clock.moved_s = 6
            await resolve(forwarder, "none.example")
            assert len(upstream.queries) == 2

    run(main)


def test_truncated_responses_are_fetched_over_tcp() -> None:
    def handle(query: dns.message.Message, protocol: str) -> dns.message.Message:
        if protocol == "tcp":
            return reply(query, "A " + " | ".join(f"192.0.2.{number}" for number in range(200)))
        message = reply(query)
        message.flags |= dns.flags.TC
        return message

    async def main() -> None:
        async with FakeUpstream(handle) as upstream, running_forwarder(upstream.address) as (forwarder, _):
            assert len((await resolve(forwarder, "big.example")).answer[0]) == 200
            assert [protocol for protocol, *_ in upstream.queries] == ["udp", "tcp"]

    run(main)


def test_next_resolver_is_used_on_failure_and_silent_resolver_is_tried_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder_module, "_ATTEMPT_S", 0.2)

    def fail(query: dns.message.Message, _: str) -> dns.message.Message:
        message = dns.message.make_response(query)
        message.set_rcode(2)
        return message

    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: None) as silent,
            FakeUpstream(fail) as broken,
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.1")) as good,
            running_forwarder(silent.address, broken.address, good.address) as (forwarder, _),
        ):
            assert answer_texts(await resolve(forwarder, "one.example")) == ["A 192.0.2.1"]
            assert [len(silent.queries), len(broken.queries), len(good.queries)] == [1, 1, 1]
            assert answer_texts(await resolve(forwarder, "two.example")) == ["A 192.0.2.1"]
            assert [len(silent.queries), len(broken.queries), len(good.queries)] == [1, 2, 2]
            assert forwarder.counts.requests[str(silent.address), "timeout"] == 1

    run(main)


def test_unreachable_resolver_leads_to_servfail_without_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ICMP message that nothing listens on the port ends each attempt; a timeout would end the test."""
    for name in ("_ATTEMPT_S", "_TOTAL_S"):
        monkeypatch.setattr(forwarder_module, name, 3600.0)

    async def main() -> None:
        async with FakeUpstream(lambda query, _: None) as closed:
            pass
        async with running_forwarder(closed.address) as (forwarder, _):
            assert answer_texts(await resolve(forwarder, "one.example")) == ["SERVFAIL"]
            assert forwarder.counts.requests == {(str(closed.address), "error"): 2}

    run(main)


def test_without_resolver_queries_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        config = UpstreamConfig(resolv_conf=tmp_path / "none")
        forwarder = Forwarder(config=ForwarderConfig(upstreams=config), clock=VirtualClock())
        assert answer_texts(await resolve(forwarder, "one.example")) == ["REFUSED"]

    run(main)


def test_concurrent_equal_queries_are_sent_upstream_once() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.1", ttl_s=0)) as upstream,
            running_forwarder(upstream.address) as (forwarder, _),
        ):
            messages = await asyncio.gather(*(resolve(forwarder, "one.example") for _ in range(50)))
            assert all(answer_texts(message) == ["A 192.0.2.1"] for message in messages)
            assert len(upstream.queries) == 1
            await resolve(forwarder, "one.example")
            assert len(upstream.queries) == 2  # a TTL of zero is not cached

    run(main)


def test_source_ports_and_ids_differ() -> None:
    ids = set()

    def handle(query: dns.message.Message, _: str) -> dns.message.Message:
        ids.add(query.id)
        return reply(query, "A 192.0.2.1")

    async def main() -> None:
        async with FakeUpstream(handle) as upstream, running_forwarder(upstream.address) as (forwarder, _):
            await asyncio.gather(*(resolve(forwarder, f"n{number}.example") for number in range(40)))
            assert len({port for *_, port in upstream.queries}) > 30
            assert len(ids) > 35

    run(main)


def test_forged_responses_are_ignored() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: None) as upstream,
            running_forwarder(upstream.address) as (forwarder, _),
        ):

            def forge(query: dns.message.Message, _: str) -> bytes:
                evil = reply(dns.message.make_query("evil.example", "A", id=query.id), "A 203.0.113.1").to_wire()
                other_id = reply(query, "A 203.0.113.2")
                other_id.id ^= 1
                address = ("127.0.0.1", upstream.queries[-1][2])
                for forged in (evil, other_id.to_wire(), query.to_wire(), b"", b"\0" * 11):
                    upstream._transport.sendto(forged, address)
                return bytes(reply(query, "A 192.0.2.1").to_wire())

            upstream.handler = forge
            assert answer_texts(await resolve(forwarder, "one.example")) == ["A 192.0.2.1"]

    run(main)


def test_query_is_repeated_without_edns_after_formerr() -> None:
    def handle(query: dns.message.Message, _: str) -> dns.message.Message:
        if query.edns >= 0:
            message = dns.message.make_response(query)
            message.use_edns(False)
            message.set_rcode(1)
            return message
        return reply(query, "A 192.0.2.1")

    async def main() -> None:
        async with FakeUpstream(handle) as upstream, running_forwarder(upstream.address) as (forwarder, _):
            assert answer_texts(await resolve(forwarder, "one.example")) == ["A 192.0.2.1"]

    run(main)


def test_malformed_responses_lead_to_servfail() -> None:
    def handle(query: dns.message.Message, _: str) -> bytes:
        good = query.to_wire()
        header = struct.pack("!HHHHH", 0x8180, 1, 9, 0, 0)
        return bytes(good[:2] + header + good[12:-11] + b"\xc0\x0c\0\1")

    async def main() -> None:
        async with FakeUpstream(handle) as upstream, running_forwarder(upstream.address) as (forwarder, _):
            assert answer_texts(await resolve(forwarder, "one.example")) == ["SERVFAIL"]

    run(main)


def test_opt_record_between_other_records_is_removed() -> None:
    def handle(query: dns.message.Message, _: str) -> bytes:
        wire = query.to_wire()
        question, opt = wire[12:-11], wire[-11:]
        extra = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\1"
        return bytes(wire[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 2) + question + extra + opt + extra)

    async def main() -> None:
        async with FakeUpstream(handle) as upstream, running_forwarder(upstream.address) as (forwarder, _):
            message = await resolve(forwarder, "one.example")
            assert answer_texts(message) == ["A 10.0.0.1"]
            assert message.edns == -1
            assert len(message.additional) == 1

    run(main)


def test_queries_beyond_max_in_flight_are_refused() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: None) as upstream,
            running_forwarder(upstream.address, max_in_flight=3) as (forwarder, _),
            asyncio.TaskGroup() as group,
        ):
            tasks = [group.create_task(resolve(forwarder, f"n{number}.example")) for number in range(3)]
            await eventually(lambda: len(upstream.queries) == 3)
            assert answer_texts(await resolve(forwarder, "more.example")) == ["REFUSED"]
            assert forwarder.counts.rejected == 1
            for task in tasks:
                task.cancel()

    run(main)


def test_stub_domains_have_their_own_resolvers() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.1")) as general,
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.2")) as corp,
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.3")) as lab,
        ):
            stubs = {"corp.example": [corp.address], "Lab.corp.example": [lab.address]}
            async with running_forwarder(general.address, stub_domains=stubs) as (forwarder, _):
                names = ("example", "a.corp.example", "corp.example", "a.lab.corp.example", "xcorp.example")
                responses = [answer_texts(await resolve(forwarder, name))[0] for name in names]
                assert [text[-1] for text in responses] == ["1", "2", "2", "3", "1"]

    run(main)


def test_external_names_are_resolved_upstream() -> None:
    async def main() -> None:
        async with (
            FakeUpstream(lambda query, _: reply(query, "A 192.0.2.1")) as upstream,
            running_forwarder(upstream.address) as (forwarder, _),
        ):
            decision = forward("out.default.svc.cluster.local", aliases=("www.example.com",), use_edns=0)
            for _ in range(2):
                message = dns.message.from_wire(await forwarder.resolve(decision, ttl_s=5))
                assert answer_texts(message) == ["A 192.0.2.1", "CNAME www.example.com."]
                assert message.edns == 0
            assert len(upstream.queries) == 1
            assert upstream.queries[0][1] == "www.example.com."
        async with running_forwarder() as (alone, _):
            message = dns.message.from_wire(await alone.resolve(decision, ttl_s=5))
            assert answer_texts(message) == ["SERVFAIL"]
            assert message.answer[0].to_text().endswith("CNAME www.example.com.")

    run(main)


def test_resolver_that_forwards_back_is_not_used() -> None:
    async def main() -> None:
        async with FakeUpstream(lambda query, _: None) as upstream:
            holder: list[Forwarder] = []

            def loop_back(query: dns.message.Message, _: str) -> dns.message.Message:
                assert holder[0].detect_probe(name_bytes(query.question[0].name.to_text()))
                return reply(query)

            upstream.handler = loop_back
            async with running_forwarder(upstream.address) as (forwarder, _):
                holder.append(forwarder)
                await eventually(lambda: bool(forwarder.looping))
                assert answer_texts(await resolve(forwarder, "one.example")) == ["SERVFAIL"]
                assert upstream.queries == []

    run(main)
