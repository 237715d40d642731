"""Queries for names outside of the cluster domain: cache, upstream resolvers in turn, UDP and TCP.

Each query is sent from a new socket, so that the kernel picks a random port, and has a random id. Responses from other
addresses, with another id or another question are ignored. Equal questions that are in progress are sent once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.host.bounded_cache import ExpiringCache
from sampan.host.clock import Clock
from sampan.network.dns.config import ForwarderConfig
from sampan.network.dns.records import record_key
from sampan.network.dns.responder import ForwardDecision
from sampan.network.dns.upstream_response import (
    UpstreamResponse,
    client_response,
    encode_alias_response,
    is_response_to,
    is_truncated,
    parse_response,
    upstream_query,
)
from sampan.network.dns.upstreams import UpstreamAddress, UpstreamChoice, choose_upstreams
from sampan.network.dns.wire import (
    AD,
    CD,
    FORMERR,
    HINFO,
    NOTIMP,
    REFUSED,
    SERVFAIL,
    DnsQuery,
    MalformedMessage,
    labels_bytes,
    labels_of,
    response,
)

log = logging.getLogger(__name__)

_ATTEMPT_S, _TOTAL_S = 2.0, 5.0
"""The timeouts, in seconds, of a query to one upstream resolver and to all of them together. The resolvers of C
libraries wait for 5 seconds."""
_FAILED_S = 10.0
"""Seconds for which a resolver that failed is tried after the others."""
_RELOAD_S = 5.0
_PROBE_S = 60.0
_MAX_DATAGRAM = 65535


@dataclass(slots=True)
class ForwardCounts:
    """Totals for metrics."""

    cache_hits: int = 0
    cache_denial_hits: int = 0
    cache_misses: int = 0
    rejected: int = 0
    requests: dict[tuple[str, str], int] = field(default_factory=dict)
    """Requests by upstream resolver and result: an rcode, or the kind of failure."""


class UpstreamFailure(Exception):
    """An upstream resolver did not respond, or sent an invalid response."""


class Forwarder:
    """Resolves names through upstream resolvers. `run()` keeps the choice of resolvers up to date and detects loops."""

    def __init__(self, *, config: ForwarderConfig, clock: Clock) -> None:
        self._config, self._clock = config, clock
        self.choice: UpstreamChoice = choose_upstreams(config.upstreams)
        self.looping: set[UpstreamAddress] = set()
        """Resolvers that forward to this server, and are therefore not used."""
        self.counts = ForwardCounts()
        self._cache: ExpiringCache[bytes, tuple[float, UpstreamResponse]] = ExpiringCache(
            clock=clock, max_entries=config.cache_size
        )
        self._in_flight: dict[bytes, asyncio.Task[UpstreamResponse | None]] = {}
        self._failed_until: dict[UpstreamAddress, float] = {}
        self._probes: dict[bytes, UpstreamAddress] = {}
        """The resolvers that the random names of loop checks were sent to."""
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def cache_entries(self) -> int:
        return len(self._cache)

    async def run(self) -> None:
        """Follow changes of resolv.conf, and check the resolvers for loops. Queries are forwarded while it runs."""
        probed: UpstreamChoice | None = None
        due = 0.0
        try:
            async with asyncio.TaskGroup() as self._tasks:
                while True:
                    if probed != self.choice or self._clock.monotonic() >= due:
                        probed, due = self.choice, self._clock.monotonic() + _PROBE_S
                        await self._probe_all()
                    await self._clock.sleep(_RELOAD_S)
                    await self._reload()
        finally:
            self._tasks = None

    async def _reload(self) -> None:
        choice = await asyncio.to_thread(choose_upstreams, self._config.upstreams)
        if choice != self.choice:
            log.info("DNS queries are forwarded to %s", choice)
            self.choice = choice

    # -- responses -----------------------------------------------------------------------------------------------------

    def cached_response(self, forward: ForwardDecision) -> bytes | None:
        """Return the response to a query without waiting: from the cache, or an error if the query cannot be forwarded.

        Return None if the query must be forwarded.
        """
        query = forward.query
        if forward.aliases:
            return None
        entry = self._cache.get(_cache_key(query, query.name))
        if entry is not None:
            return self._respond_from_cache(query, entry)
        if not self.choice.servers_for(query.name) or self._count_if_full(_cache_key(query, query.name)):
            return response(query, rcode=REFUSED)
        return None

    async def resolve(self, forward: ForwardDecision, *, ttl_s: int) -> bytes:
        """Return the response to a query. `ttl_s` is the TTL of the CNAME records of the cluster that lead to the
        name."""
        query = forward.query
        question = forward.aliases[-1] + query.question[-4:] if forward.aliases else query.question
        name = question[:-4].lower()
        entry = self._cache.get(_cache_key(query, name))
        if entry is None:
            self.counts.cache_misses += 1
            upstream = await self._ask_once(query, question, name)
            entry = None if upstream is None else (self._clock.monotonic(), upstream)
        if forward.aliases:
            return encode_alias_response(query, forward.aliases, ttl_s, None if entry is None else entry[1])
        return (
            response(query, rcode=SERVFAIL) if entry is None else self._respond_from_cache(query, entry, is_hit=False)
        )

    def _respond_from_cache(
        self, query: DnsQuery, entry: tuple[float, UpstreamResponse], *, is_hit: bool = True
    ) -> bytes:
        if is_hit and entry[1].is_negative:
            self.counts.cache_denial_hits += 1
        elif is_hit:
            self.counts.cache_hits += 1
        return client_response(query, entry[1], int(self._clock.monotonic() - entry[0]))

    def _count_if_full(self, key: bytes) -> bool:
        """Return whether no further query can be forwarded, and count the rejected query then."""
        if key in self._in_flight or len(self._in_flight) < self._config.max_in_flight:
            return False
        self.counts.rejected += 1
        return True

    async def _ask_once(self, query: DnsQuery, question: bytes, name: bytes) -> UpstreamResponse | None:
        """Return the response of the upstream resolvers. A question that is already in progress is not sent again.

        The question continues even if the client that asked first is gone.
        """
        key = _cache_key(query, name)
        task = self._in_flight.get(key)
        if task is None:
            if self._tasks is None or self._count_if_full(key):
                return None
            task = self._in_flight[key] = self._tasks.create_task(self._ask_all(query, question, name))
            task.add_done_callback(lambda _: self._in_flight.pop(key, None))
        return await asyncio.shield(task)

    async def _ask_all(self, query: DnsQuery, question: bytes, name: bytes) -> UpstreamResponse | None:
        """Ask one resolver after the other, and keep the response in the cache."""
        last: UpstreamResponse | None = None
        try:
            async with asyncio.timeout(_TOTAL_S):
                for server in self._attempts(self.choice.servers_for(name)):
                    try:
                        last = await self._ask(server, query, question)
                    except (UpstreamFailure, MalformedMessage, OSError) as failure:
                        self._note_failure(server, failure)
                        continue
                    self._failed_until.pop(server, None)
                    if last.rcode not in (SERVFAIL, REFUSED, NOTIMP):
                        self._cache.keep(_cache_key(query, name), (self._clock.monotonic(), last), last.ttl_s)
                        break
        except TimeoutError:
            pass
        except Exception:
            log.exception("cannot forward the DNS query for %r", b".".join(labels_of(query.name)))
        return last

    def _attempts(self, servers: Sequence[UpstreamAddress]) -> list[UpstreamAddress]:
        """Return the resolvers in the order in which they are tried. Resolvers that failed lately come last, and a
        single resolver is tried twice."""
        now = self._clock.monotonic()
        usable = [server for server in servers if server not in self.looping]
        usable.sort(key=lambda server: self._failed_until.get(server, 0.0) > now)
        return usable * 2 if len(usable) == 1 else usable

    async def _ask(self, server: UpstreamAddress, query: DnsQuery, question: bytes) -> UpstreamResponse:
        has_edns = True
        while True:
            identifier = os.urandom(2)
            message = upstream_query(
                identifier, question, flags=query.flags, is_dnssec_ok=query.is_dnssec_ok, has_edns=has_edns
            )
            async with asyncio.timeout(_ATTEMPT_S):
                received = await exchange_datagrams(server, message, identifier, question)
                if is_truncated(received):
                    received = await exchange_stream(server, message, identifier, question)
            upstream = parse_response(received, question)
            if upstream.rcode == FORMERR and has_edns:  # a server that does not know EDNS
                has_edns = False
                continue
            self._count(server, str(upstream.rcode))
            return upstream

    def _note_failure(self, server: UpstreamAddress, failure: Exception) -> None:
        self._count(server, "timeout" if isinstance(failure, TimeoutError) else "error")
        self._failed_until[server] = self._clock.monotonic() + _FAILED_S
        log.info("upstream resolver %s failed: %s", server, failure or type(failure).__name__)

    def _count(self, server: UpstreamAddress, result: str) -> None:
        key = str(server), result
        self.counts.requests[key] = self.counts.requests.get(key, 0) + 1

    # -- loops ---------------------------------------------------------------------------------------------------------

    def detect_probe(self, name: bytes) -> bool:
        """Whether a query for this name is a loop check that this server has sent. If so, the resolver forwards to this
        server and is not used any more."""
        server = self._probes.get(name)
        if server is None:
            return False
        if server not in self.looping:
            self.looping.add(server)
            log.warning(
                "upstream resolver %s forwards to the DNS server of the cluster: it is not used. "
                "Set resolvers outside of the cluster with --resolv-conf or --dns-upstream",
                server,
            )
        return True

    async def _probe_all(self) -> None:
        """Send a question for a random name to each resolver. It comes back if the resolver forwards to this server."""
        choice = self.choice
        servers = {*choice.servers, *(server for _, stubs in choice.stub_domains for server in stubs)}
        self._probes = {_random_name(): server for server in servers}
        looping, self.looping = self.looping, set()
        await asyncio.gather(*(self._probe(name, server) for name, server in self._probes.items()))
        for server in looping - self.looping:
            log.info("upstream resolver %s is used again", server)

    async def _probe(self, name: bytes, server: UpstreamAddress) -> None:
        identifier, question = os.urandom(2), record_key(name, HINFO)
        message = upstream_query(identifier, question, flags=0, is_dnssec_ok=False)
        try:
            async with asyncio.timeout(_ATTEMPT_S):
                await exchange_datagrams(server, message, identifier, question)
        except (TimeoutError, UpstreamFailure, OSError):
            pass  # an unreachable resolver is no loop; it is noticed when it is used


def _cache_key(query: DnsQuery, name: bytes) -> bytes:
    """Return the key of a question in the cache. It depends on whether the client wants DNSSEC records, which other
    responses lack."""
    return name + query.question[-4:] + bytes((query.is_dnssec_ok, query.flags & (CD | AD)))


def _random_name() -> bytes:
    """Return a name of two random numbers, as the loop plugin of CoreDNS uses: no resolver has reason to answer it by
    itself."""
    return labels_bytes(str(int.from_bytes(os.urandom(8), "big")).encode() for _ in range(2))


# -- messages to upstream resolvers ----------------------------------------------------------------------------------


async def exchange_datagrams(server: UpstreamAddress, message: bytes, identifier: bytes, question: bytes) -> bytes:
    """Send a query over UDP and return the response. Datagrams that are no response to it are ignored."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as endpoint:
        endpoint.connect(_socket_address(server))
        endpoint.send(message)
        received: asyncio.Future[bytes] = loop.create_future()

        def on_readable() -> None:
            try:
                datagram = endpoint.recv(_MAX_DATAGRAM)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # an ICMP message: nothing listens there
                if not received.done():
                    received.set_exception(error)
                return
            if not received.done() and is_response_to(datagram, identifier, question):
                received.set_result(datagram)

        loop.add_reader(endpoint.fileno(), on_readable)
        try:
            return await received
        finally:
            loop.remove_reader(endpoint.fileno())


async def exchange_stream(server: UpstreamAddress, message: bytes, identifier: bytes, question: bytes) -> bytes:
    """Send a query over TCP and return the response."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        writer.write(len(message).to_bytes(2, "big") + message)
        size = int.from_bytes(await reader.readexactly(2), "big")
        received = await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise UpstreamFailure("the connection was closed before the response was complete") from None
    finally:
        writer.close()
    if not is_response_to(received, identifier, question):
        raise UpstreamFailure("the response is to another question")
    return received


def _socket_address(server: UpstreamAddress) -> tuple[str, int] | tuple[str, int, int, int]:
    if "%" not in server.host:
        return server.host, server.port
    address = ipaddress.IPv6Address(server.host)  # a link-local address with the link that it belongs to
    scope = address.scope_id or ""
    index = int(scope) if scope.isdecimal() else socket.if_nametoindex(scope)
    return str(address).partition("%")[0], server.port, 0, index
