"""Go's text formats of values; the expected texts were printed by Go."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.go_compat import gotext
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ('a "b" \\ c', '"a \\"b\\" \\\\ c"'),
        ("tab\tline\nbell\a", '"tab\\tline\\nbell\\a"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("héllo ☃", '"héllo ☃"'),
        ("\u200b\ufeff", '"\\u200b\\ufeff"'),
        ("\u00a0", '"\\u00a0"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("it's <b>", '"it\'s <b>"'),
        (b"a\xff".decode("utf-8", "surrogateescape"), '"a\\xff"'),
    ],
)
def test_quote(text: str, quoted: str) -> None:
    assert gotext.quote(text) == quoted


@pytest.mark.parametrize(
    ("byte", "quoted"),
    [
        (0x41, "'A'"),
        (0x27, "'\\''"),
        (0x22, "'\"'"),
        (0x5C, "'\\\\'"),
        (0x00, "'\\x00'"),
        (0x07, "'\\a'"),
        (0x0B, "'\\v'"),
        (0x0C, "'\\f'"),
        (0x7F, "'\\x7f'"),
        (0x80, "'\\u0080'"),
        (0xA0, "'\\u00a0'"),
        (0xAD, "'\\u00ad'"),
        (0xE9, "'é'"),
    ],
)
def test_quote_byte(byte: int, quoted: str) -> None:
    assert gotext.quote_byte(byte) == quoted


def test_go_syntax_quotes_control_characters_by_name() -> None:
    assert gotext.go_syntax("a\v\f\x00") == '"a\\v\\f\\x00"'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": ["x", None, True]}, "map[a:[x <nil> true] b:1]"),
        ([], "[]"),
        ({}, "map[]"),
        (1.5, "1.5"),
        (1.0, "1"),
        (0.0, "0"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-2.5e-7, "-2.5e-07"),
        (1e100, "1e+100"),
    ],
)
def test_value(value: Any, expected: str) -> None:
    assert gotext.value(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("word", "word"),
        (5, "%!s(int64=5)"),
        (1.5, "%!s(float64=1.5)"),
        (True, "%!s(bool=true)"),
        (None, "%!s(<nil>)"),
        ({"a": 1, "b": "c"}, "map[a:%!s(int64=1) b:c]"),
        (["a", None], "[a %!s(<nil>)]"),
    ],
)
def test_text(value: Any, expected: str) -> None:
    assert gotext.text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": "<&>", "a": [1, 2.0, None]}, '{"a":[1,2,null],"b":"\\u003c\\u0026\\u003e"}'),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (1e-6, "0.000001"),
        ("\x01\b\u2028", '"\\u0001\\b\\u2028"'),
    ],
)
def test_json_text(value: Any, expected: str) -> None:
    assert gotext.json_text(value) == expected


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def nest_values(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)


@given(st.recursive(SCALARS, nest_values, max_leaves=8))
def test_json_text_is_json(value: Any) -> None:
    assert json.loads(gotext.json_text(value), parse_int=float) == json.loads(json.dumps(value), parse_int=float)


class Port(msgspec.Struct):
    port: int
    name: str = ""


def test_structs_keep_the_order_of_their_fields() -> None:
    assert gotext.json_text([Port(port=80, name="b<c")]) == '[{"port":80,"name":"b\\u003cc"}]'


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{ "a" :\n[ 1.0, 1e3 ] }', b'{"a":[1.0,1e3]}'),
        (b'{"b":1,"a":"x && y > z < w"}', b'{"b":1,"a":"x \\u0026\\u0026 y \\u003e z \\u003c w"}'),
        (b'"\\u003c\\/\\u00e9\xc3\xa9"', b'"\\u003c\\/\\u00e9\xc3\xa9"'),
        ('"\u2028\u2029\u2027"'.encode(), '"\\u2028\\u2029\u2027"'.encode()),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
    ],
)
def test_compact_json(raw: bytes, expected: bytes) -> None:
    assert gotext.compact_json(raw) == expected


def test_label_selector_format_in_events() -> None:
    selector = LabelSelector(
        matchLabels={"b": "2", "a": "1"},
        matchExpressions=[LabelSelectorRequirement(key="k", operator="In", values=["x", "y"])],
    )
    assert gotext.label_selector(selector) == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
        "MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
    )
