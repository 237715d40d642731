"""Responses to queries: short and long path, EDNS, errors, truncation, hostile messages."""

from __future__ import annotations

import struct
from typing import Any

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.network.dns.responder import ForwardDecision, Responder
from tests.input_cost import is_quick
from tests.network.dns.objects import (
    answer_texts,
    ask,
    endpoint,
    endpoint_slice,
    record_table,
    responder_of,
    service,
    transport,
)

NAME = "Web.Default.svc.Cluster.local."


def responder_with_endpoints(count: int) -> Responder:
    endpoints = [endpoint(f"10.0.{number // 250}.{number % 250}") for number in range(count)]
    return responder_of(record_table([(service("web", "None"), [endpoint_slice("web", *endpoints)])]))


@pytest.fixture
def responder() -> Responder:
    return responder_of(
        record_table([(service("web", "10.96.0.5"), []), (service("out", external_name="Www.Example.com"), [])])
    )


@pytest.mark.parametrize(
    "options", [{}, {"use_edns": 0}, {"use_edns": 0, "want_dnssec": True}, {"use_edns": 0, "payload": 100}]
)
def test_question_is_repeated_as_sent(responder: Responder, options: dict[str, Any]) -> None:
    message = ask(responder, NAME, **options)
    assert message.question[0].name.to_text() == NAME
    assert message.answer[0].name.to_text() == NAME
    assert answer_texts(message) == ["A 10.96.0.5"]
    assert message.flags & dns.flags.AA
    assert message.flags & dns.flags.RA
    assert message.flags & dns.flags.RD
    assert (message.edns == 0) is ("use_edns" in options)
    assert bool(message.ednsflags & dns.flags.DO) is ("want_dnssec" in options)


def test_edns_options_are_ignored(responder: Responder) -> None:
    cookie = dns.edns.GenericOption(10, b"12345678")
    message = ask(responder, NAME, use_edns=0, options=[cookie])
    assert answer_texts(message) == ["A 10.96.0.5"]
    assert message.options == ()


def test_short_and_long_path_agree() -> None:
    responder = responder_with_endpoints(3)
    for number in range(6):
        options: dict[str, Any] = (
            {"use_edns": 0, "options": [dns.edns.GenericOption(10, b"12345678")]} if number % 2 else {}
        )
        message = ask(responder, NAME, **options)
        assert answer_texts(message) == ["A 10.0.0.0", "A 10.0.0.1", "A 10.0.0.2"]


def test_first_address_changes_from_response_to_response() -> None:
    for count in (2, 3):
        responder = responder_with_endpoints(count)
        first = {ask(responder, NAME).answer[0][0].address for _ in range(count)}
        assert len(first) == count
        with_edns = {ask(responder, NAME, use_edns=0, want_dnssec=True).answer[0][0].address for _ in range(count)}
        assert len(with_edns) == count


@pytest.mark.parametrize(
    ("options", "limit"),
    [({}, 512), ({"use_edns": 0, "payload": 800}, 800), ({"use_edns": 0, "payload": 4096}, 1232)],
)
def test_large_responses_are_truncated_over_udp_and_whole_over_tcp(options: dict[str, Any], limit: int) -> None:
    responder = responder_with_endpoints(200)
    query = dns.message.make_query(NAME, "A", **options)
    wire = responder.respond(query.to_wire(), transport())
    assert isinstance(wire, bytes)
    assert limit - 40 < len(wire) <= limit
    assert dns.message.from_wire(wire).flags & dns.flags.TC
    whole = ask(responder, NAME, protocol="tcp", **options)
    assert len(whole.answer[0]) == 200
    assert not whole.flags & dns.flags.TC


def test_responses_beyond_the_limit_of_tcp_are_truncated() -> None:
    message = ask(responder_with_endpoints(5000), NAME, protocol="tcp")
    assert message.flags & dns.flags.TC
    assert len(message.answer[0]) > 4000


def test_names_outside_the_cluster_domain_are_forwarded(responder: Responder) -> None:
    decision = responder.respond(dns.message.make_query("example.com", "A").to_wire(), transport())
    assert isinstance(decision, ForwardDecision)
    assert decision.aliases == ()
    decision = responder.respond(dns.message.make_query("out.default.svc.cluster.local", "A").to_wire(), transport())
    assert isinstance(decision, ForwardDecision)
    assert decision.aliases == (b"\x03www\x07example\x03com\0",)
    assert answer_texts(ask(responder, "out.default.svc.cluster.local", "CNAME")) == ["CNAME www.example.com."]


def test_cluster_names_get_servfail_until_the_table_is_synced() -> None:
    responder = responder_of(record_table([(service("web", "10.96.0.5"), [])]), is_synced=False)
    for name, type in ((NAME, "A"), ("other.default.svc.cluster.local", "A"), ("5.0.96.10.in-addr.arpa", "PTR")):
        assert answer_texts(ask(responder, name, type)) == ["SERVFAIL"]
    assert isinstance(
        responder.respond(dns.message.make_query("example.com", "A").to_wire(), transport()), ForwardDecision
    )


def rcode(responder: Responder, message: bytes) -> str:
    result = responder.respond(message, transport())
    assert isinstance(result, bytes)
    assert result[:2] == message[:2]
    return str(dns.rcode.to_text(dns.message.from_wire(result).rcode()))


def test_rcodes_of_invalid_queries(responder: Responder) -> None:
    make = dns.message.make_query
    assert rcode(responder, make(NAME, "A", rdclass="CH").to_wire()) == "REFUSED"
    assert rcode(responder, make(NAME, "AXFR").to_wire()) == "REFUSED"
    assert rcode(responder, make(NAME, "A", use_edns=1).to_wire()) == "BADVERS"
    update = make(NAME, "A")
    update.set_opcode(dns.opcode.STATUS)
    assert rcode(responder, update.to_wire()) == "NOTIMP"
    assert rcode(responder, struct.pack("!HHHHHH", 7, 0x100, 0, 0, 0, 0)) == "FORMERR"
    assert rcode(responder, struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\xff" * 8) == "FORMERR"
    response = make(NAME, "A")
    response.flags |= dns.flags.QR
    assert responder.respond(response.to_wire(), transport()) is None
    assert responder.respond(b"short", transport()) is None


def test_requests_and_responses_are_counted(responder: Responder) -> None:
    udp = transport()
    for name, type in ((NAME, "A"), (NAME, "AAAA"), ("none.default.svc.cluster.local", "A")):
        responder.respond(dns.message.make_query(name, type).to_wire(), udp)
    assert udp.requests == {b"\0\1": 2, b"\0\x1c": 1}
    assert udp.responses == {0: 2, 3: 1}


VALID = [
    dns.message.make_query(NAME, "A", id=1).to_wire(),
    dns.message.make_query(NAME, "SRV", id=1, use_edns=0).to_wire(),
    dns.message.make_query("out.default.svc.cluster.local", "A", id=1).to_wire(),
    dns.message.make_query("10-0-0-1.default.pod.cluster.local", "A", id=1, use_edns=0).to_wire(),
    dns.message.make_response(dns.message.make_query(NAME, "A", id=1)).to_wire(),
]
MUTATED = st.builds(
    lambda message, changes, cut, extra: (
        bytes(changes.get(place, byte) for place, byte in enumerate(message[: len(message) - cut])) + extra
    ),
    st.sampled_from(VALID),
    st.dictionaries(st.integers(0, 60), st.integers(0, 255), max_size=6),
    st.integers(0, 20),
    st.binary(max_size=40),
)
FUZZED = responder_of(
    record_table(
        [(service("web", "10.96.0.5"), []), (service("out", external_name="web.default.svc.cluster.local"), [])]
    )
)


@settings(max_examples=1500, deadline=None)
@given(st.one_of(MUTATED, st.binary(max_size=700)))
def test_any_message_gets_a_well_formed_response_or_none(message: bytes) -> None:
    result = FUZZED.respond(message, transport())
    assert is_quick(lambda: FUZZED.respond(message, transport()))
    if isinstance(result, bytes):
        parsed = dns.message.from_wire(result)
        assert parsed.flags & dns.flags.QR
        assert result[:2] == message[:2]
        assert len(result) <= 1232
    elif isinstance(result, ForwardDecision):
        assert result.query.question in (message[12 : 12 + len(result.query.question)], result.query.question)
    else:
        assert len(message) < 12 or message[2] & 0x80


def test_query_with_thousands_of_records_is_rejected_quickly(responder: Responder) -> None:
    """Thousands of records with compression pointers are rejected before they are parsed."""
    record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 0)
    message = struct.pack("!HHHHHH", 1, 0, 1, 5000, 0, 0) + b"\x01a\0\0\1\0\1" + record * 5000
    assert rcode(responder, message) == "FORMERR"
    assert is_quick(lambda: [rcode(responder, message) for _ in range(300)])
