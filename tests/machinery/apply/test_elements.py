"""Path elements: encoding, order, and form in messages."""

import pytest

from sampan.machinery.apply import elements
from sampan.machinery.apply.elements import BadElement


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (elements.field("a.b/c"), "f:a.b/c"),
        (elements.value("x"), 'v:"x"'),
        (elements.value('<"&">'), r'v:"\u003c\"\u0026\"\u003e"'),
        (elements.value("\b\n\t\x7f é\u2028"), 'v:"\\u0008\\n\\t\x7f é\\u2028"'),
        (elements.value(80), "v:80"),
        (elements.value(True), "v:true"),
        (elements.value(0.5), "v:0.5"),
        (elements.key([("port", 80), ("protocol", "TCP")]), 'k:{"port":80,"protocol":"TCP"}'),
        (elements.key([("name", None)]), 'k:{"name":null}'),
    ],
)
def test_encoding_of_elements(encoded: str, text: str) -> None:
    assert encoded == text
    assert elements.canonical(text) == text


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('k: {"b": 1, "a": "x"}', 'k:{"a":"x","b":1}'),
        ('k:{"port":80.0}', 'k:{"port":80}'),
        ('v:"\\u0041"', 'v:"A"'),
        ("i:007", "i:7"),
        ("x:unknown", None),
    ],
)
def test_canonical_form_of_elements(sent: str, kept: str | None) -> None:
    assert elements.canonical(sent) == kept


@pytest.mark.parametrize("text", ["", "f", "fname", "k:[1]", "k:{", "v:", "i:x", "i:"])
def test_malformed_elements_are_rejected(text: str) -> None:
    with pytest.raises(BadElement):
        elements.canonical(text)


def test_elements_are_sorted_by_kind_then_by_value() -> None:
    unsorted = [
        "i:10",
        "i:9",
        'v:"b"',
        "v:10",
        "v:9",
        "v:null",
        "v:true",
        'k:{"p":443}',
        'k:{"p":80}',
        "f:b",
        "f:a",
        ".",
    ]
    assert elements.sort_elements(dict.fromkeys(unsorted)) == [
        ".",
        "f:a",
        "f:b",
        'k:{"p":80}',
        'k:{"p":443}',
        "v:9",
        "v:10",
        'v:"b"',
        "v:true",
        "v:null",
        "i:9",
        "i:10",
    ]


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("f:a.b", ".a.b"),
        ('k:{"port":80,"protocol":"TCP"}', '[port=80,protocol="TCP"]'),
        ('v:"a\\"b"', '[="a\\"b"]'),
        ("v:1.5", "[=1.5]"),
        ("v:null", "[=null]"),
        ("v:[1,true]", "[=[1,true]]"),
        ("i:3", "[3]"),
    ],
)
def test_form_of_elements_in_messages(element: str, text: str) -> None:
    assert elements.format_element(element) == text
