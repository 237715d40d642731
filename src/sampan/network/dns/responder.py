"""The decision about each query: a response from the table of records, an error, or the need to forward it.

Plain queries for names in the table take a short path: the bytes of the question are the key, and the response is a
concatenation of ready-made bytes. All other queries are parsed.
"""

from __future__ import annotations

import itertools
import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from sampan.machinery.telemetry.metrics import Histogram
from sampan.network.dns.record_table import RecordTable
from sampan.network.dns.records import pod_address, record_key
from sampan.network.dns.wire import (
    AA,
    AAAA,
    AD,
    AXFR,
    BADVERS,
    CD,
    CNAME,
    EDNS_UDP_SIZE,
    FORMERR,
    HEADER_SIZE,
    IXFR,
    MAX_MESSAGE_SIZE,
    MIN_UDP_SIZE,
    NOERROR,
    NOTIMP,
    NXDOMAIN,
    QR,
    RA,
    RD,
    REFUSED,
    SERVFAIL,
    A,
    DnsQuery,
    MalformedMessage,
    RecordSet,
    error_response,
    is_within,
    labels_of,
    name_bytes,
    opt_record,
    parse_query,
    record,
    response,
    truncate_response,
)

_MAX_ALIASES = 8
"""The maximum number of ExternalName services that are followed from one to the next."""
_MAX_ODD_SIZE = 4096
"""The maximum size of a message that is parsed although only the library can parse it."""
_OPT = opt_record()
_PLAIN_OPT_SIZE = len(_OPT)
_REVERSE_ZONES = (name_bytes("in-addr.arpa"), name_bytes("ip6.arpa"))


@dataclass(slots=True, kw_only=True)
class DnsTransport:
    """The transport of queries, UDP or TCP over IPv4 or IPv6, with the numbers of its requests and responses."""

    protocol: str
    family: str
    """The IP family as in the metrics of CoreDNS: `1` for IPv4, `2` for IPv6."""
    durations: Histogram
    requests: defaultdict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    """The number of queries by record type in wire format."""
    responses: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The number of responses by response code."""

    @property
    def is_udp(self) -> bool:
        return self.protocol == "udp"


@dataclass(frozen=True, slots=True)
class ForwardDecision:
    """The decision that a query has to be forwarded: for its own name, or for the last of the `aliases` if there are
    any."""

    query: DnsQuery
    aliases: tuple[bytes, ...] = ()
    """The names that CNAME records of the cluster lead to, in their order. The last name is the one that is
    forwarded."""


def _plain_headers() -> dict[bytes, tuple[bytes, bool]]:
    """Return the header of each plain query without its id, with the start of the header of its response and whether
    the query has an OPT record."""
    headers = {}
    for rd, ad, cd, extras in itertools.product((0, RD), (0, AD), (0, CD), (0, 1)):
        answered = struct.pack("!HH", QR | AA | RA | rd | cd, 1)
        headers[struct.pack("!HHHHH", rd | ad | cd, 1, 0, 0, extras)] = answered, bool(extras)
    return headers


_PLAIN_HEADERS = _plain_headers()


class Responder:
    """Responds to messages from the table of records."""

    def __init__(self, *, table: RecordTable, is_synced: Callable[[], bool], on_probe: Callable[[bytes], bool]) -> None:
        """Create the responder.

        Until `is_synced` returns True, names of the cluster get SERVFAIL, as they may exist. `on_probe` is called with
        names outside of the cluster domain. It returns whether the query is a loop check of the forwarder.
        """
        self._table, self._is_synced, self._on_probe = table, is_synced, on_probe
        self._record_sets: dict[bytes, RecordSet] = {}
        """The record sets of the table; none until the table is complete."""

    def respond(self, message: bytes, transport: DnsTransport) -> bytes | ForwardDecision | None:
        """Return the response to a message, the decision to forward it, or None for a message that gets no response."""
        plain = _PLAIN_HEADERS.get(message[2:12])
        if plain is not None:
            end = message.find(0, HEADER_SIZE) + 1
            type_end = end + 4
            records = self._record_sets.get(message[HEADER_SIZE:end].lower() + message[end:type_end])
            if records is not None and type_end + len(records.body) + _PLAIN_OPT_SIZE <= MIN_UDP_SIZE:
                if not plain[1]:
                    if len(message) == type_end:
                        transport.requests[message[end : end + 2]] += 1
                        transport.responses[NOERROR] += 1
                        head = message[:2] + plain[0] + records.counts
                        return head + message[HEADER_SIZE:type_end] + records.next_body()
                elif (
                    len(message) == type_end + _PLAIN_OPT_SIZE
                    and message.startswith(b"\0\0\x29", type_end)
                    and message.endswith(b"\0\0\0\0\0\0")
                ):
                    transport.requests[message[end : end + 2]] += 1
                    transport.responses[NOERROR] += 1
                    head = message[:2] + plain[0] + records.counts_with_opt
                    return head + message[HEADER_SIZE:type_end] + records.next_body() + _OPT
        return self._respond_to_any(message, transport)

    def use_table(self) -> None:
        """Respond from the table from now on. The table must be complete."""
        self._record_sets = self._table.record_sets

    def finish_response(self, query: DnsQuery, message: bytes, transport: DnsTransport) -> bytes:
        """Count a response, and cut it to the size that the client accepts."""
        transport.responses[message[3] & 15] += 1
        limit = MAX_MESSAGE_SIZE
        if transport.is_udp:
            limit = min(query.udp_size, EDNS_UDP_SIZE) if query.udp_size else MIN_UDP_SIZE
        return message if len(message) <= limit else truncate_response(message, limit)

    def _respond_to_any(self, message: bytes, transport: DnsTransport) -> bytes | ForwardDecision | None:
        if len(message) < HEADER_SIZE or message[2] & 0x80:
            return None  # a response to a malformed message or to a response could start a loop
        if message[2] & 0x78:
            transport.responses[NOTIMP] += 1
            return error_response(message, NOTIMP)
        try:
            query = parse_query(message)
        except MalformedMessage:
            odd = parse_odd_query(message)
            if odd is None:
                transport.responses[FORMERR] += 1
                return error_response(message, FORMERR)
            query = odd
        transport.requests[query.question[-4:-2]] += 1
        decision = self._decide(query)
        return decision if isinstance(decision, ForwardDecision) else self.finish_response(query, decision, transport)

    def _decide(self, query: DnsQuery) -> bytes | ForwardDecision:
        if query.edns_version:
            return response(query, rcode=BADVERS)
        if query.qclass != 1 or query.type in (AXFR, IXFR):
            return response(query, rcode=REFUSED)
        if is_within(query.name, self._table.zone_name):
            return self._resolve_in_zone(query) if self._is_synced() else response(query, rcode=SERVFAIL)
        if (records := self._record_sets.get(query.key)) is not None:
            return response(query, counts=records.counts, body=records.next_body(), flags=AA)
        if not self._is_synced() and any(is_within(query.name, zone) for zone in _REVERSE_ZONES):
            return response(query, rcode=SERVFAIL)
        if self._on_probe(query.name):
            return response(query, rcode=NXDOMAIN)
        return ForwardDecision(query)

    def _resolve_in_zone(self, query: DnsQuery) -> bytes | ForwardDecision:
        aliases, name, body = list[bytes](), query.name, b""
        while True:
            if (records := self._record_sets.get(record_key(name, query.type))) is not None:
                return self._respond_with_records(query, aliases, body, records)
            alias = self._record_sets.get(record_key(name, CNAME))
            if alias is None:
                return self._respond_without_record(query, name, aliases, body)
            target = alias.body[12:]
            owner = _pointer(query, body) if aliases else b"\xc0\x0c"
            body += owner + alias.body[2:]
            aliases.append(target)
            if not is_within(target.lower(), self._table.zone_name):
                return ForwardDecision(query, tuple(aliases))
            if len(aliases) == _MAX_ALIASES:
                return response(query, rcode=SERVFAIL)
            name = target.lower()

    def _respond_with_records(self, query: DnsQuery, aliases: list[bytes], body: bytes, records: RecordSet) -> bytes:
        if not aliases:
            return response(query, counts=records.counts, body=records.next_body(), flags=AA)
        count, owner = len(aliases), _pointer(query, body)
        size = 16 if query.type == A else 28 if query.type == AAAA else 0
        if size:  # the target of the last alias owns the records; clients query for other types themselves
            addresses = records.next_body()
            count += len(addresses) // size
            body += b"".join(owner + addresses[place + 2 : place + size] for place in range(0, len(addresses), size))
        return response(query, counts=struct.pack("!HHH", count, 0, 0), body=body, flags=AA)

    def _respond_without_record(self, query: DnsQuery, name: bytes, aliases: list[bytes], body: bytes) -> bytes:
        """Return NODATA, NXDOMAIN, or the address of a pod name."""
        rcode, answer_count, authority = NXDOMAIN, len(aliases), self._table.soa
        if name in self._table.names:
            rcode = NOERROR
        elif (packed := self._pod_address(name)) is not None:
            rcode = NOERROR
            if query.type == (A if len(packed) == 4 else AAAA):
                owner = _pointer(query, body) if aliases else b"\xc0\x0c"
                body += record(query.type, self._table.zone.ttl_s, packed, owner)
                answer_count, authority = answer_count + 1, b""
        counts = struct.pack("!HHH", answer_count, bool(authority), 0)
        return response(query, rcode=rcode, counts=counts, body=body + authority, flags=AA)

    def _pod_address(self, name: bytes) -> bytes | None:
        """Return the address in a name such as 10-0-0-1.default.pod.cluster.local, if its namespace exists."""
        above = name[1 + name[0] :]
        if above not in self._table.names or len(labels := labels_of(name)) < 3 or labels[2] != b"pod":
            return None
        return pod_address(labels[0])


def _pointer(query: DnsQuery, body: bytes) -> bytes:
    """Return a compression pointer to the target of the alias that ends `body`.

    Every alias has a record of 12 bytes and its target. The last target starts at the end of the body less its length.
    """
    start = 0
    position = 0
    while position < len(body):
        start = position + 12
        position = start + int.from_bytes(body[position + 10 : position + 12], "big")
    return struct.pack("!H", 0xC000 | (HEADER_SIZE + len(query.question) + start))


def parse_odd_query(message: bytes) -> DnsQuery | None:
    """Parse, with the library, a query that has more than a question and an OPT record. Return None if it is
    malformed."""
    import dns.exception
    import dns.flags
    import dns.message

    if len(message) > _MAX_ODD_SIZE:
        return None
    try:
        parsed = dns.message.from_wire(message, ignore_trailing=False)
        (question,) = parsed.question
        name = bytes(question.name.to_wire())
    except (dns.exception.DNSException, ValueError, IndexError, KeyError, struct.error):
        return None
    type, qclass = int(question.rdtype), int(question.rdclass)
    has_edns = parsed.edns >= 0
    return DnsQuery(
        id=message[:2],
        flags=int.from_bytes(message[2:4], "big"),
        question=name + struct.pack("!HH", type, qclass),
        name=name.lower(),
        type=type,
        qclass=qclass,
        udp_size=max(int(parsed.payload), MIN_UDP_SIZE) if has_edns else 0,
        edns_version=int(parsed.edns) if has_edns else 0,
        is_dnssec_ok=bool(parsed.ednsflags & dns.flags.DO),
    )
