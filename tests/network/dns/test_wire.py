"""The wire format, compared with dnspython."""

from __future__ import annotations

import struct

import dns.flags
import dns.message
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.network.dns import wire
from sampan.network.dns.responder import parse_odd_query


def query(name: str, type: str = "A", **options: object) -> bytes:
    return bytes(dns.message.make_query(name, type, **options).to_wire())


def test_names_are_lower_cased() -> None:
    assert wire.name_bytes("WWW.Example.com.") == b"\x03www\x07example\x03com\0"
    assert wire.name_bytes(".") == b"\0"


@pytest.mark.parametrize("text", ["a" * 64, ".".join(["a" * 63] * 4)])
def test_names_that_are_too_long_are_rejected(text: str) -> None:
    with pytest.raises(wire.MalformedMessage):
        wire.name_bytes(text)


def test_name_within_zone_at_label_boundary_only() -> None:
    zone = wire.name_bytes("cluster.local")
    assert wire.is_within(wire.name_bytes("a.cluster.local"), zone)
    assert wire.is_within(zone, zone)
    assert not wire.is_within(wire.name_bytes("local"), zone)
    assert not wire.is_within(b"\x0ea\x07cluster\x05local\0", zone)  # one label that contains the bytes of the zone
    assert wire.parents_of(wire.name_bytes("a.b.c.cluster.local"), zone) == [
        wire.name_bytes("b.c.cluster.local"),
        wire.name_bytes("c.cluster.local"),
    ]


def test_query_is_parsed() -> None:
    parsed = wire.parse_query(query("KuBe.default", "SRV", use_edns=0, payload=4096, want_dnssec=True))
    assert parsed.name == wire.name_bytes("kube.default")
    assert parsed.question[:-4] == b"\x04KuBe\x07default\0"
    assert (parsed.type, parsed.qclass, parsed.udp_size, parsed.is_dnssec_ok) == (wire.SRV, 1, 4096, True)


@pytest.mark.parametrize(
    "message",
    [
        struct.pack("!HHHHHH", 1, 0, 0, 0, 0, 0),
        struct.pack("!HHHHHH", 1, 0, 2, 0, 0, 0) + b"\0\0\1\0\1" * 2,
        struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",
        struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + b"\x40" + b"a" * 64 + b"\0\0\1\0\1",
        struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + b"\0\0\1\0",
        struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + b"\0\0\1\0\1trailing",
        struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 2) + b"\0\0\1\0\1" + wire.opt_record() * 2,
        struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 1) + b"\0\0\1\0\1",
        struct.pack("!HHHHHH", 1, 0, 1, 0, 0, 0) + b"\x3f" * 300,
    ],
)
def test_malformed_queries_are_rejected(message: bytes) -> None:
    with pytest.raises(wire.MalformedMessage):
        wire.parse_query(message)
    assert parse_odd_query(message) is None


def test_query_with_records_is_parsed_by_dnspython() -> None:
    message = dns.message.make_query("a.example", "SOA", use_edns=0)
    message.authority.append(dns.rrset.from_text("a.example.", 5, "IN", "A", "10.0.0.1"))
    odd = parse_odd_query(message.to_wire())
    assert odd is not None
    assert (odd.name, odd.type, odd.udp_size) == (wire.name_bytes("a.example"), wire.SOA, 1232)


def response(count: int, *, has_edns: bool) -> bytes:
    parsed = wire.parse_query(query("a.example", use_edns=0 if has_edns else False))
    records = wire.RecordSet(answer_records=[wire.record(wire.A, 5, bytes([10, 0, 0, n % 256])) for n in range(count)])
    return wire.response(parsed, counts=records.counts, body=records.body)


@pytest.mark.parametrize("has_edns", [False, True])
@pytest.mark.parametrize("count", [1, 28, 29, 30, 100, 3000])
def test_truncated_responses_keep_whole_records_and_opt(count: int, has_edns: bool) -> None:
    cut = wire.truncate_response(response(count, has_edns=has_edns), 512)
    parsed = dns.message.from_wire(cut)
    assert len(cut) <= 512
    assert (parsed.edns == 0) is has_edns
    kept = len(parsed.answer[0])
    assert bool(parsed.flags & dns.flags.TC) is (kept < count)
    assert kept >= 28 or kept == count or has_edns


def test_missing_additional_records_do_not_set_tc() -> None:
    parsed = wire.parse_query(query("a.example", "SRV"))
    owner = wire.name_bytes("b.example")
    extra = [wire.record(wire.A, 5, bytes([10, 0, n // 256, n % 256]), owner) for n in range(100)]
    records = wire.RecordSet(answer_records=[wire.record(wire.SRV, 5, wire.srv_data(80, owner))], additional=extra)
    cut = dns.message.from_wire(
        wire.truncate_response(wire.response(parsed, counts=records.counts, body=records.body), 512)
    )
    assert len(cut.answer) == 1
    assert not cut.flags & dns.flags.TC
    assert 0 < len(cut.additional[0]) < 100


def test_addresses_rotate() -> None:
    records = wire.RecordSet(answer_records=[wire.record(wire.A, 5, bytes([10, 0, 0, n])) for n in range(3)])
    assert [records.next_body()[15] for _ in range(6)] == [1, 2, 0, 1, 2, 0]
    assert all(sorted(records.next_body()) == sorted(records.body) for _ in range(3))


@given(st.binary(max_size=600))
def test_any_bytes_parse_or_are_rejected(message: bytes) -> None:
    if len(message) >= wire.HEADER_SIZE:
        try:
            parsed = wire.parse_query(message)
        except wire.MalformedMessage:
            return
        assert message.startswith(parsed.question, wire.HEADER_SIZE)
