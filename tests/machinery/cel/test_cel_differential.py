"""Comparison with cel-cpp, if it is installed: random expressions give the same values and fail in both engines.

Excluded are `substring` with two indices, in which cel-cpp rejects the end of the string, and long sources, for which
its stack is too small.
"""

import math
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.checker.types import BOOL, DOUBLE, DYN, INT, STRING, list_of, map_of
from sampan.machinery.cel.library import BINDINGS

VARIABLES: dict[str, Any] = {
    "i": 7,
    "j": -3,
    "d": 2.5,
    "s": "héllo wörld",
    "t": "abc",
    "b": True,
    "li": [3, 1, 2],
    "ls": ["b", "a", ""],
    "m": {"a": 1, "b": -2},
    "x": {"n": 1.0, "l": [1.5, "z", None, False], "o": {"k": "v"}},
}
TYPES = {
    "i": INT,
    "j": INT,
    "d": DOUBLE,
    "s": STRING,
    "t": STRING,
    "b": BOOL,
    "li": list_of(INT),
    "ls": list_of(STRING),
    "m": map_of(STRING, INT),
    "x": DYN,
}
ENV = Environment(TYPES, libraries=(BINDINGS,), is_homogeneous=False)


Expressions = st.SearchStrategy[str]


def _any_of(*templates: str, **parts: Expressions) -> Expressions:
    """Draw one of the templates, with each `$name` replaced by an expression drawn for it."""

    def fill(template: str) -> Expressions:
        pieces = template.split("$")
        drawn = st.tuples(*(parts[piece[0]] for piece in pieces[1:]))
        rest = [piece[1:] for piece in pieces[1:]]
        return drawn.map(lambda texts: pieces[0] + "".join(map(str.__add__, texts, rest)))

    return st.sampled_from(templates).flatmap(fill)


_ints: Expressions = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["i", "j", "0", "1", "-1", "9223372036854775807", "-9223372036854775808", "m.a", "li[0]"]),
        _any_of(
            *("($I + $I)", "($I - $I)", "($I * $I)", "($I / $I)", "($I % $I)", "-($I)", "size($S)", "$L.size()"),
            *(
                "($B ? $I : $I)",
                "int($D)",
                "int(string($I))",
                "$L[$I]",
                "m[$S]",
                "$S.indexOf($S)",
                "$S.lastIndexOf($S)",
            ),
            *("cel.bind(v, $I, v + v)", "m.?a.orValue($I)", "li[?$I].orValue($I)", "int(x.n)"),
            I=_ints,
            S=_strings,
            L=_lists,
            B=_bools,
            D=_doubles,
        ),
    )
)
_doubles: Expressions = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["d", "0.0", "-1.5", "1e300", "-0.0", "x.n"]),
        _any_of("($D + $D)", "($D - $D)", "($D * $D)", "($D / $D)", "-($D)", "double($I)", D=_doubles, I=_ints),
    )
)
_strings: Expressions = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["s", "t", "''", "'a'", "'ö'", "'\\u00e9\\n'", "r'\\d'", "ls[0]"]),
        _any_of(
            *("($S + $S)", "string($I)", "string($B)", "$S.substring($I)", "$S.charAt($I)"),
            *("$S.replace($S, $S)", "$S.replace($S, $S, $I)", "$S.lowerAscii()", "$S.upperAscii()", "$S.trim()"),
            *("ls.join($S)", "$S.split($S).join('|')", "($B ? $S : $S)", "string(bytes($S))"),
            S=_strings,
            I=_ints,
            B=_bools,
        ),
    )
)
_bools: Expressions = st.deferred(
    lambda: st.one_of(
        st.sampled_from(
            ["b", "true", "false", "has(x.n)", "has(x.q)", "x.l[3]", "'a' in m", "x.q == 1", "x.o.k == 'v'"]
        ),
        _any_of(
            *(
                "($B && $B)",
                "($B || $B)",
                "!($B)",
                "$I == $I",
                "$I != $I",
                "$I < $I",
                "$I >= $I",
                "$D <= $D",
                "$D == $D",
            ),
            *("$S == $S", "$S < $S", "$S.contains($S)", "$S.startsWith($S)", "$S.endsWith($S)", "$I in $L", "$S in ls"),
            *("$L.all(e, e > $I)", "$L.exists(e, 1 / e > 0)", "$L.exists_one(e, e == $I)", "$L == $L", "dyn($I) == $D"),
            *("m.exists(k, m[k] > $I)", "x.l.exists(e, e == $I)", "type($I) == int", "$S.matches('^[a-z]+')"),
            *("$I / $I > 0 || $B", "$I % $I == 0 && $B", "m == {'a': $I, 'b': -2}", "$S in x", "dyn($S) < dyn($S)"),
            B=_bools,
            I=_ints,
            D=_doubles,
            S=_strings,
            L=_lists,
        ),
    )
)
_lists: Expressions = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["li", "[]", "[1]", "[1, 2, 3]"]),
        _any_of(
            "($L + $L)",
            "$L.map(e, e * $I)",
            "$L.filter(e, e > $I)",
            "[$I, $I]",
            "$L.map(e, e > 0, e + $I)",
            L=_lists,
            I=_ints,
        ),
    )
)


@cache
def _cel_cpp_environment() -> Any:
    cel = pytest.importorskip("cel_expr_python.cel")
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    kinds = cel.Type
    types = {
        **{"i": kinds.INT, "j": kinds.INT, "d": kinds.DOUBLE, "s": kinds.STRING, "t": kinds.STRING, "b": kinds.BOOL},
        **{"li": kinds.List(kinds.INT), "ls": kinds.List(kinds.STRING), "m": kinds.Map(kinds.STRING, kinds.INT)},
        "x": kinds.DYN,
    }
    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    return cel.NewEnv(variables=types, extensions=extensions)


_FAILED = "failed"


def _evaluate_with_cel_cpp(environment: Any, source: str) -> Any:
    from cel_expr_python import cel

    try:
        value = environment.compile(source).eval(data=VARIABLES)
    except Exception:  # the library has no error type of its own
        return _FAILED
    return _FAILED if value.type() == cel.Type.ERROR else value.plain_value()


def _evaluate(source: str) -> Any:
    try:
        return ENV.compile(source).evaluate(VARIABLES)
    except CelError:
        return _FAILED


def _are_same(first: Any, other: Any) -> bool:
    if isinstance(first, float) and isinstance(other, float) and math.isnan(first) and math.isnan(other):
        return True
    if isinstance(first, list) and isinstance(other, list):
        return len(first) == len(other) and all(map(_are_same, first, other))
    return bool(first == other) and isinstance(first, bool) == isinstance(other, bool)


@settings(max_examples=250, deadline=None)
@given(st.one_of(_ints, _doubles, _strings, _bools, _lists).filter(lambda source: len(source) < 120))
def test_same_value_as_cel_cpp(source: str) -> None:
    expected, actual = _evaluate_with_cel_cpp(_cel_cpp_environment(), source), _evaluate(source)
    assert _are_same(expected, actual), (source, expected, actual)
