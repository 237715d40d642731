"""The PEM reader, compared with the results of Go's `encoding/pem`, and with long hostile text."""

import base64
from collections.abc import Callable
from functools import partial

import pytest

from sampan.apiserver.registry import certificate_rules
from sampan.apiserver.registry.kinds import secrets
from sampan.machinery.pki.certificates import BadSigningRequest, parse_signing_request
from sampan.machinery.pki.pem import PemBlock, read_blocks
from tests.controllers.security.requests import pem
from tests.input_cost import min_cpu_s

A = "-----BEGIN A-----\nYQ==\n-----END A-----\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (A, [("A", b"a")]),
        (A.replace("\n", "\r\n"), [("A", b"a")]),
        (A.rstrip("\n"), [("A", b"a")]),
        (f"text before\n{A}text between\n{A}text after", [("A", b"a"), ("A", b"a")]),
        ("-----BEGIN A-----  \nY\t Q=\n=\n-----END A----- \t\n", [("A", b"a")]),
        ("-----BEGIN A-----\n-----END A-----\n", [("A", b"")]),
        (f"x{A}", []),
        (f"{A.rstrip()}x", []),
        (A.replace("END A", "END B"), []),
        (A.replace("YQ==", "Y?=="), []),
        ("-----BEGIN A-----YQ==-----END A-----\n" + A, [("A", b"a")]),
        ("-----BEGIN B-----\n" + A, [("A", b"a")]),
        ("-----BEGIN A-----\nYQ==\n x -----BEGIN B-----\n-----END A-----\n", []),
        ("-----BEGIN A\nYQ==\n-----END A-----\n", []),
    ],
)
def test_blocks_are_the_same_as_with_go(text: str, expected: list[tuple[str, bytes]]) -> None:
    assert [(block.type, block.content) for block in read_blocks(text.encode())] == expected


def test_headers_are_read_and_not_written() -> None:
    (block,) = read_blocks(b"-----BEGIN A-----\nKey: value: 1\n\nYQ==\n-----END A-----\n")
    assert (block.headers, block.content) == ({"Key": "value: 1"}, b"a")
    assert block.encode() == A.encode()


def test_long_content_is_written_in_lines() -> None:
    block = PemBlock("A", bytes(range(256)))
    assert list(read_blocks(block.encode())) == [block]
    assert max(map(len, block.encode().splitlines())) == 64


def join_lines(request: bytes) -> bytes:
    lines = request.splitlines()
    return b"".join(lines) + b"\n"


MASTERS, DEV = pem("alice", "system:masters"), pem("alice", "dev")


@pytest.mark.parametrize(
    "text",
    [
        MASTERS + DEV,
        DEV + MASTERS,
        join_lines(MASTERS) + DEV,
        DEV + join_lines(MASTERS),
        join_lines(MASTERS),
        DEV + b"-----BEGIN CERTIFICATE REQUEST-----",
        b"-----BEGIN CERTIFICATE REQUEST-----\n" + DEV,
        b"x" * (257 << 10) + b"\n" + DEV,
    ],
)
def test_ambiguous_signing_request_is_rejected(text: bytes) -> None:
    with pytest.raises(BadSigningRequest):
        parse_signing_request(text)


@pytest.mark.parametrize("text", [DEV, b"Certificate Request:\n  Data: ...\n" + DEV, DEV + b"\n\nnotes\n"])
def test_text_around_a_request_is_allowed(text: bytes) -> None:
    assert parse_signing_request(text).subject.rfc4514_string() == "CN=alice,O=dev"


HOSTILE = {
    "newlines after BEGIN": b"-----BEGIN A-----" + b"\n" * 10_000,
    "BEGIN lines": b"-----BEGIN A-----\n" * 3_000,
    "BEGIN and END of another type": b"-----BEGIN A-----\n-----END B-----\n" * 2_000,
    "headers": b"-----BEGIN A-----\n" + b"a:\n" * 5_000,
    "dashes": b"-" * 50_000,
    "empty blocks": b"-----BEGIN A-----\n-----END A-----\n" * 2_000,
}


def readers() -> dict[str, Callable[[bytes], object]]:
    return {
        "signing request": certificate_rules.find_request_error,
        "issued certificate": certificate_rules.find_certificate_error,
        "trust bundle": certificate_rules.find_trust_anchor_errors,
        "TLS secret": lambda text: secrets.find_key_pair_error(text, text),
    }


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("read", readers().values(), ids=readers().keys())
def test_hostile_text_is_read_in_linear_time(read: Callable[[bytes], object], text: bytes) -> None:
    read(text)
    once, four_times = (min_cpu_s(partial(read, text * count), enough_s=0) for count in (1, 4))
    assert four_times < 12 * once + 0.05


def test_base64_content_of_a_block_is_decoded() -> None:
    content = b"\0" * 1000
    text = b"-----BEGIN A-----\n" + base64.encodebytes(content) + b"-----END A-----"
    assert [block.content for block in read_blocks(text)] == [content]
