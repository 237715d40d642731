"""`find` and `findAll`: what they find, what they refuse, and that no pattern makes them slow."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.lists import FUNCTIONS
from sampan.machinery.cel.patterns import find, find_all

ENV = Environment(variables=("x", "p"), functions=FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "pattern", "wanted"),
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
        ("aa", "(|a)*", ["", "", ""]),
        ("a.b.c", r"(?:[a-z]+\.)+", ["a.b."]),
        ("AA", r"\x41\x{41}|\101", ["AA"]),
    ],
)
def test_what_is_found(text: str, pattern: str, wanted: list[str]) -> None:
    assert ENV.compile("x.findAll(p)").evaluate({"x": text, "p": pattern}) == wanted
    assert ENV.compile("x.find(p)").evaluate({"x": text, "p": pattern}) == (wanted or [""])[0]


@pytest.mark.parametrize(("most", "wanted"), [(-1, ["1", "2", "3"]), (0, []), (2, ["1", "2"]), (9, ["1", "2", "3"])])
def test_no_more_than_are_wanted(most: int, wanted: list[str]) -> None:
    assert find_all("1a2b3", "[0-9]", most) == wanted


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("(?=a)", "invalid perl operator: (?="),
        ("(?<!a)b", "invalid perl operator: (?<!"),
        ("(?>a)", "invalid perl operator: (?>"),
        ("a**", "bad repetition operator: **"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("(a", "missing ): (a"),
    ],
)
@pytest.mark.parametrize("asked", ["x.find(p)", "x.findAll(p)", "x.matches(p)"])
def test_what_is_no_pattern(asked: str, pattern: str, fault: str) -> None:
    with pytest.raises(CelError, match=re.escape(fault)):
        ENV.compile(asked).evaluate({"x": "aab", "p": pattern})


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+$", "a*a*a*a*a*a*b", "(a*)*b", "(.*a){20}b", "((a+)+b|a)"]
)
@pytest.mark.parametrize("asked", ["x.find(p)", "x.findAll(p, 1)", "x.matches(p)"])
def test_no_pattern_explodes(asked: str, pattern: str) -> None:
    """A machine that tries one way after the other would take longer than the world has been there."""
    began = time.process_time()
    ENV.compile(asked).evaluate({"x": "a" * 500 + "c", "p": pattern})
    assert time.process_time() - began < 5


def test_long_work_is_ended() -> None:
    with pytest.raises(ValueError, match="cost limit exceeded"):
        find("a" * 100_000, "(a?){50}a{50}$")


_ATOMS = st.sampled_from(["a", "b", "c", "[ab]", "[^a]", ".", r"\w", r"a\b", "^a", "b$"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda all_of: f"(?:{'|'.join(all_of)})")
        | st.tuples(inner, st.sampled_from(["+", "{2}", "{1,3}", "{1,}"]), st.sampled_from(["", "?"])).map(
            lambda made: f"(?:{made[0]}){made[1]}{made[2]}"
        )
        | st.tuples(inner, inner, st.sampled_from(["*", "?", "*?", "??"])).map(
            lambda made: f"{made[0]}(?:{made[1]}){made[2]}"
        )
    ),
    max_leaves=8,
)
"""Whose repeated parts all read something: of those that may read nothing engines think differently."""


@settings(max_examples=300, deadline=None)
@given(_PATTERNS, st.text("abc \n", max_size=10))
def test_as_pythons_own(pattern: str, text: str) -> None:
    found = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    assert find(text, pattern) == (found[0] if found else "")
