"""Random bodies of every media type: only API errors are raised, and no body under 100 kB costs more than half a
second of CPU time or 100 MB of memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.codec import protobuf
from sampan.api.schema import schemas
from sampan.api.types.core_v1 import ConfigMap, Pod
from tests.api.schema_values import values
from tests.apiserver import body_fuzzing as fuzzing
from tests.apiserver.body_fuzzing import JSON, PROTOBUF, YAML

MEDIA = st.sampled_from([JSON, YAML, PROTOBUF])
VALIDATION = st.sampled_from(["Warn", "Strict", "Ignore"])
YAML_TOKENS = (
    *(b"a", b"b: ", b"a: 1\n", b"- ", b"- a\n", b"  ", b"\n", b": ", b"? ", b"[", b"]", b"{", b"}", b",", b"{},"),
    *(b"[],", b"&a ", b"*a", b"*a,", b"&a [*a]", b"<<: *a\n", b"<<: {a: 1}\n", b"*a : 1\n", b"!!int ", b"!!float "),
    *(b"!!binary ", b"!!str ", b"!x ", b"'", b'"', b"''", b'""', b'"\\u0041"', b"|\n ", b">-\n ", b"#", b"# c\n"),
    *(b"%YAML 1.1\n---\n", b"---\n", b"...\n", b"1_", b"0b1", b"0x", b"1e9", b"1:", b".", b".inf", b"~", b"null"),
    *(b"2020-01-01", b"=", b"\t", b"\xc3\xa9", b"\xff", b"\x00", b"\xef\xbb\xbf", b"\\", b"x" * 200, b"metadata: "),
    *(b"kind: Pod\n", b"data: ", b"1"),
)
JSON_TOKENS = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"{},", b"[],", b'"a":1,', b'"a":{', b'"a":[', b'"metadata":{'),
    *(b'"data":{', b'"kind":"Pod",', b'"spec":{"a":{"b":1},', b'"spec":{"containers":[{},', b"null,", b"true", b"1"),
    *(b"-", b"1e400,", b"1" * 30, b"0.1,", b"\\", b"\\u0022", b"\\ud800", b'"\\u0000",', b"\n", b" ", b"\xff"),
    *(b"\xc3\xa9", b"x" * 200, b'"' + b"k" * 500 + b'":{"x":1},', b'"labels":{"a":"b"},'),
    b'"managedFields":[{"fieldsV1":{"f:a":{}}}],',
)


def tokens(choices: tuple[bytes, ...], max_size: int = 12) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(choices), max_size=max_size).map(b"".join)


def texts(choices: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    return tokens(choices, 60) | st.binary(max_size=200)


@st.composite
def long_texts(draw: st.DrawFn, choices: tuple[bytes, ...]) -> bytes:
    """Draw a text of nearly 100 kB that repeats a unit, so that quadratic costs show."""
    head, unit, tail = draw(tokens(choices)), draw(tokens(choices, 4).filter(bool)), draw(tokens(choices))
    return head + unit * max((fuzzing.MOST_BYTES - len(head) - len(tail)) // len(unit), 0) + tail


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Draw an object in protobuf with some bytes changed, repeated or missing."""
    kind = draw(st.sampled_from(["Pod", "ConfigMap"]))
    schema = schemas.schema_of(Pod if kind == "Pod" else ConfigMap)
    value: dict[str, Any] = draw(values(schema, depth=3))
    data = bytearray(protobuf.encode({**value, "apiVersion": "v1", "kind": kind}))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data) - 1))
        change = draw(st.sampled_from(["set", "cut", "repeat", "insert"]))
        if change == "set":
            data[at] = draw(st.integers(0, 255))
        elif change == "cut":
            del data[at : at + draw(st.integers(1, 20))]
        elif change == "repeat":
            data[at:at] = data[at : at + 20] * draw(st.integers(1, 50))
        else:
            data[at:at] = draw(st.binary(max_size=10))
        if not data:
            break
    return bytes(data)


@settings(max_examples=300)
@given(body=texts(YAML_TOKENS) | texts(JSON_TOKENS) | messages(), media=MEDIA, validation=VALIDATION)
def test_any_body_is_read_or_rejected_with_an_api_error(body: bytes, media: str, validation: str) -> None:
    fuzzing.read(body, media, validation)


@settings(max_examples=40)
@given(body=long_texts(YAML_TOKENS))
def test_long_yaml_costs_little_cpu_time(body: bytes) -> None:
    assert fuzzing.longest_cpu_s(body, YAML) < fuzzing.MOST_CPU_S


@settings(max_examples=40)
@given(body=long_texts(JSON_TOKENS))
def test_long_json_costs_little_cpu_time(body: bytes) -> None:
    assert fuzzing.longest_cpu_s(body, JSON) < fuzzing.MOST_CPU_S


EMPTY_ITEM = b"\x12\x00"
LONG_MESSAGES = {
    "empty containers": protobuf.wrap("v1", "Pod", b"\x12\xfe\x7f" + EMPTY_ITEM * (0x3FFE // 2)),
    "unknown fields": protobuf.wrap("v1", "Pod", b"\xf8\x07\x01" * 33_000),
    "empty managers": protobuf.wrap("v1", "ConfigMap", b"\x0a\x80\x80\x06" + b"\x8a\x01\x00" * (0x18000 // 3)),
    "long integers": protobuf.wrap("v1", "Pod", b"\xff" * 99_000),
}


@pytest.mark.parametrize("name", LONG_MESSAGES)
def test_long_protobuf_costs_little_cpu_time_and_memory(name: str) -> None:
    body = LONG_MESSAGES[name]
    assert fuzzing.longest_cpu_s(body, PROTOBUF) < fuzzing.MOST_CPU_S
    assert fuzzing.peak_memory(body, PROTOBUF) < fuzzing.MOST_MEMORY


@settings(max_examples=15)
@given(body=long_texts(YAML_TOKENS), media=st.sampled_from([YAML, JSON]))
def test_long_bodies_take_little_memory(body: bytes, media: str) -> None:
    assert fuzzing.peak_memory(body, media) < fuzzing.MOST_MEMORY


@pytest.mark.parametrize("tail", [b"*a", b"*b", b"<<: *a"])
def test_yaml_aliases_cost_little_cpu_time_and_memory(tail: bytes) -> None:
    head = b"x: &a {%b}\ny: &b %b\nz:\n" % (b",".join(b"k%d: v" % n for n in range(2000)), b"s" * 50_000)
    lines = b"".join(b"- %b\n" % (b"{%b}" % tail if b"<<" in tail else tail) for _ in range(2000))
    assert fuzzing.peak_memory(head + lines, YAML) < fuzzing.MOST_MEMORY
    assert fuzzing.longest_cpu_s(head + lines, YAML) < fuzzing.MOST_CPU_S
