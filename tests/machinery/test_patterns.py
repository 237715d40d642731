"""Regular expressions of users: matches, rejected patterns, and bounded time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.limits import PATTERN_CHARACTERS
from sampan.machinery.patterns import PatternError, compile_pattern
from tests.input_cost import check_cost


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("a1 b22", "[0-9]+", ["1", "22"]),
        ("abc", "x*", ["", "", "", ""]),
        ("123", "[0-9]*", ["123"]),
        ("ab", "a|ab", ["a"]),
        ("ab", "ab|a", ["ab"]),
        ("aaa", "a+?", ["a", "a", "a"]),
        ("aaa", "(?U)a+", ["a", "a", "a"]),
        ("aaaa", "a{2,3}", ["aaa"]),
        ("a{2,x}", "a{2,x}", ["a{2,x}"]),
        ("AbaB", "(?i)ab", ["Ab", "aB"]),
        ("AbaB", "(?i:a)b", ["Ab"]),
        ("one two", r"\b\w", ["o", "t"]),
        ("a\nb", "(?m)^.$", ["a", "b"]),
        ("a\nb", "^.$", []),
        ("a\nb", "(?s)a.b", ["a\nb"]),
        ("a.b", r"\Qa.b\E", ["a.b"]),
        ("é1٣", r"\d", ["1"]),
        ("é1", r"\pL", ["é"]),
        ("x]y", "[]x]+", ["x]"]),
        ("ab12", "[[:alpha:]]+", ["ab"]),
        ("a-b", r"(?P<l>\w)-(?<r>\w)", ["a-b"]),
        ("a.b.c", r"(?:[a-z]+\.)+", ["a.b."]),
        ("AA", r"\x41\x{41}|\101", ["AA"]),
        ("a\ud800b", ".", ["a", "\ufffd", "b"]),
    ],
)
def test_matches(text: str, pattern: str, expected: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert list(compiled.find_all(text)) == expected
    assert compiled.find(text) == (expected[0] if expected else None)
    assert compiled.matches(text) is bool(expected)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("(?=a)", "invalid perl operator: `(?=`"),
        ("(?<!a)b", "invalid perl operator: `(?<!`"),
        ("(?>a)", "invalid perl operator: `(?>`"),
        ("a**", "bad repetition operator: `**`"),
        ("a{1001}", "invalid repetition size: `{1001}`"),
        ("(a", "missing closing ): `(a`"),
        (r"\pL{500}", "pattern too large"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        ("a" * (PATTERN_CHARACTERS + 1), "pattern too long"),
        ("(" * 10_000 + ")" * 6_000, "missing closing )"),
    ],
)
def test_invalid_patterns_are_rejected(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=re.escape(message)):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+$", "a*a*a*a*a*a*b", "(a*)*b", "(.*a){20}b", "((a+)+b|a)", "(a?){1000}b"]
)
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    """A backtracking matcher would need more steps than there are nanoseconds in a year."""
    check_cost(lambda: compile_pattern(pattern).matches("a" * 5_000 + "c"))


_ATOMS = st.sampled_from(["a", "b", "c", "[ab]", "[^a]", ".", r"\w", r"a\b", "^a", "b$"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})")
        | st.tuples(inner, st.sampled_from(["+", "{2}", "{1,3}", "{1,}"]), st.sampled_from(["", "?"])).map(
            lambda parts: f"(?:{parts[0]}){parts[1]}{parts[2]}"
        )
        | st.tuples(inner, inner, st.sampled_from(["*", "?", "*?", "??"])).map(
            lambda parts: f"{parts[0]}(?:{parts[1]}){parts[2]}"
        )
    ),
    max_leaves=8,
)
"""Every repeated part consumes text: engines differ on repeated parts that may match an empty string."""


@settings(max_examples=300, deadline=None)
@given(_PATTERNS, st.text("abc \n", max_size=10))
def test_same_match_as_the_standard_library(pattern: str, text: str) -> None:
    match = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    assert compile_pattern(pattern).find(text) == (match[0] if match else None)
