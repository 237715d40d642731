"""Responses of upstream resolvers: checking, parsing, caching for as long as their TTLs allow, and encoding for
clients."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from sampan.network.dns.wire import (
    AD,
    CD,
    EDNS_UDP_SIZE,
    HEADER_SIZE,
    NOERROR,
    NXDOMAIN,
    OPT,
    QR,
    RA,
    RD,
    SERVFAIL,
    SOA,
    TC,
    DnsQuery,
    MalformedMessage,
    name_end,
    opt_record,
    record_end,
    response,
)

MAX_TTL_S, MAX_NEGATIVE_TTL_S = 30, 5
"""The longest times, in seconds, for which responses are cached, whatever their TTLs. They are those of CoreDNS in
clusters and, for names that do not exist, those of NodeLocal DNS."""
_MAX_RECORDS = 8192


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    """The sections of a response that follow the question, without OPT."""

    flags: int
    counts: bytes
    body: bytes
    ttl_positions: tuple[int, ...]
    """The positions in `body` of the TTLs of the records."""
    ttl_s: int
    """Seconds for which the response may be cached; 0 for not at all."""

    @property
    def rcode(self) -> int:
        return self.flags & 15

    @property
    def is_negative(self) -> bool:
        return self.rcode == NXDOMAIN or self.counts[:2] == b"\0\0"


def upstream_query(
    identifier: bytes, question: bytes, *, flags: int, is_dnssec_ok: bool, has_edns: bool = True
) -> bytes:
    """Encode a query for an upstream resolver. Of the client's flags only CD and AD are passed on."""
    head = identifier + struct.pack("!HHHHH", RD | flags & (CD | AD), 1, 0, 0, 1 if has_edns else 0)
    return head + question + (opt_record(is_dnssec_ok=is_dnssec_ok) if has_edns else b"")


def is_response_to(message: bytes, identifier: bytes, question: bytes) -> bool:
    """Whether a message is the response to a query. Other messages are ignored, because an attacker who guesses ids may
    have sent them."""
    return (
        len(message) >= HEADER_SIZE + len(question)
        and message[:2] == identifier
        and bool(message[2] & 0x80)
        and message[4:6] == b"\0\1"
        and message[HEADER_SIZE : HEADER_SIZE + len(question) - 4].lower() == question[:-4].lower()
        and message[HEADER_SIZE + len(question) - 4 : HEADER_SIZE + len(question)] == question[-4:]
    )


def is_truncated(message: bytes) -> bool:
    return bool(message[2] & (TC >> 8))


def parse_response(message: bytes, question: bytes) -> UpstreamResponse:
    """Parse a response into its sections. Raise MalformedMessage if it does not follow the format."""
    flags, _, *counts = struct.unpack_from("!HHHHH", message, 2)
    if sum(counts) > _MAX_RECORDS:
        raise MalformedMessage("too many records")
    start = position = HEADER_SIZE + len(question)
    positions, ttls, negative_ttl, end_of_kept = list[int](), list[int](), 0, start
    for section, count in enumerate(tuple(counts)):
        for _ in range(count):
            owner_end, end = name_end(message, position), record_end(message, position)
            type, _, ttl = struct.unpack_from("!HHI", message, owner_end)
            if type == OPT:
                if end != len(message):
                    return parse_response(_without_opt(message), question)
                counts[section] -= 1
            else:
                positions.append(owner_end + 4 - start)
                ttls.append(ttl if ttl < 1 << 31 else 0)
                end_of_kept = end
                if type == SOA and section == 1:
                    negative_ttl = min(ttl, int.from_bytes(message[end - 4 : end], "big"))
            position = end
    is_negative = flags & 15 == NXDOMAIN or (flags & 15 == NOERROR and not counts[0])
    if is_negative:
        ttl_s = min(negative_ttl, MAX_NEGATIVE_TTL_S)
    else:
        ttl_s = min([*ttls, MAX_TTL_S]) if flags & 15 == NOERROR and not flags & TC else 0
    packed = struct.pack("!HHH", *counts)
    return UpstreamResponse(flags, packed, message[start:end_of_kept], tuple(positions), ttl_s)


def client_response(query: DnsQuery, upstream: UpstreamResponse, age_s: int) -> bytes:
    """Encode the response for a client, with the TTLs that are left after `age_s` seconds in the cache."""
    body = upstream.body
    if age_s:
        aged = bytearray(body)
        for position in upstream.ttl_positions:
            ttl = int.from_bytes(aged[position : position + 4], "big")
            aged[position : position + 4] = max(ttl - age_s, 0).to_bytes(4, "big")
        body = bytes(aged)
    flags = upstream.flags & (TC | AD if query.is_dnssec_ok or query.flags & AD else TC)
    return response(query, rcode=upstream.rcode, counts=upstream.counts, body=body, flags=flags)


def response_message(question: bytes, upstream: UpstreamResponse) -> bytes:
    """Encode the response as a message of its own, with the id zero."""
    head = struct.pack("!HHH", 0, QR | RA | upstream.flags & 15, 1) + upstream.counts
    return head + question + upstream.body


def encode_alias_response(
    query: DnsQuery, aliases: tuple[bytes, ...], ttl_s: int, upstream: UpstreamResponse | None
) -> bytes:
    """Encode a response with CNAME records of the cluster, followed by the records of the upstream resolver for the
    last of these names. Without a response of an upstream resolver, the response has only the CNAME records and an
    error code."""
    import dns.exception
    import dns.flags
    import dns.message
    import dns.name
    import dns.rdatatype
    import dns.rrset

    reply = dns.message.make_response(dns.message.from_wire(query.id + b"\0\0\0\1\0\0\0\0\0\0" + query.question))
    reply.flags |= dns.flags.RA | query.flags & (RD | CD)
    owner = reply.question[0].name
    for alias in aliases:
        target, _ = dns.name.from_wire(alias, 0)
        reply.answer.append(dns.rrset.from_text(owner, ttl_s, "IN", "CNAME", target.to_text()))
        owner = target
    if upstream is None:
        reply.set_rcode(SERVFAIL)
    else:
        question = aliases[-1] + query.question[-4:]
        try:
            resolved = dns.message.from_wire(response_message(question, upstream))
        except dns.exception.DNSException:
            pass
        else:
            reply.answer.extend(resolved.answer)
            reply.authority.extend(resolved.authority)
            reply.set_rcode(resolved.rcode())
    if query.udp_size:
        reply.use_edns(0, dns.flags.DO if query.is_dnssec_ok else 0, EDNS_UDP_SIZE)
    return bytes(reply.to_wire(max_size=65535))


def _without_opt(message: bytes) -> bytes:
    """Encode a message again without its OPT record, which is not the last record."""
    import dns.exception
    import dns.message

    try:
        parsed = dns.message.from_wire(message)
        parsed.use_edns(False)
        return bytes(parsed.to_wire(max_size=65535))
    except dns.exception.DNSException as error:
        raise MalformedMessage(f"cannot be parsed: {error}") from None
