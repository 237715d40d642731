"""Expressions that try to exhaust memory, time or the stack are rejected or stopped by their cost limit."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.limits import CEL_COST
from sampan.machinery.cel import CelError, CompileError, CostLimitExceeded, Environment, Program
from sampan.machinery.cel.checker.types import DYN, STRING, list_of
from sampan.machinery.cel.devices import compile_selector
from sampan.machinery.cel.library import BINDINGS
from tests.input_cost import MOST_MEMORY, check_cost, is_quick, peak_memory

ENV = Environment({"x": DYN, "names": list_of(STRING), "text": STRING}, libraries=(BINDINGS,))
VARIABLES: dict[str, Any] = {"x": 1, "names": [], "text": ""}


def nested_binds(depth: int, start: str, step: str, end: str) -> str:
    """Return nested calls of `cel.bind` in which each variable is computed from the previous one."""
    opened = "".join(
        f"cel.bind(v{at}, {start if at == 0 else step.replace('#', f'v{at - 1}')}, " for at in range(depth)
    )
    return opened + end.replace("#", f"v{depth - 1}") + ")" * depth


def chained_replace(count: int) -> str:
    return '"aaaaaaaaaa"' + '.replace("a", "aaaaaaaaaa")' * count


ATTACKS = {
    "replace chained 7 times": f"{chained_replace(7)}.size() > 0",
    "replace chained 10 times": f"{chained_replace(10)}.size() > 0",
    "replace of an empty string": '"a".replace("", "aaaaaaaaaa")' + '.replace("", "aaaaaaaaaa")' * 12 + ".size() > 0",
    "one character replaced by a long text in a loop": nested_binds(
        1, f"{chained_replace(5)}", "", "lists.range(10000).map(i, 'a'.replace('a', #)).size() > 0"
    ),
    "cel.bind doubles a string": nested_binds(40, "'aaaaaaaa'", "# + #", "#.size() > 0"),
    "cel.bind doubles a list": nested_binds(40, "[1, 2, 3, 4]", "# + #", "#.size() > 0"),
    "cel.bind doubles bytes": nested_binds(40, "b'aaaaaaaa'", "# + #", "#.size() > 0"),
    "join multiplies": nested_binds(20, "'aaaa'", "[#, #, #, #].join(#)", "#.size() > 0"),
    "format multiplies": nested_binds(20, "'aaaa'", "'%s%s%s%s'.format([#, #, #, #])", "#.size() > 0"),
    "format of a list that shares its elements": nested_binds(40, "[1, 2]", "[#, #]", "'%s'.format([#]).size() > 0"),
    "equality of lists that share their elements": nested_binds(40, "[[1], [2]]", "[#, #]", "#.size() > 0").replace(
        ".size() > 0", " == " + nested_binds(40, "[[1], [2]]", "[#, #]", "#")
    ),
    "flatten of lists that share their elements": nested_binds(40, "[[1], [2]]", "[#, #]", "#.flatten(100).size() > 0"),
    "distinct of lists that share their elements": nested_binds(
        40, "[[1], [2]]", "[#, #]", "[#, #, #].distinct().size() > 0"
    ),
    "sum of lists that share their elements": nested_binds(40, "[1, 2]", "[dyn(#), dyn(#)]", "#.indexOf(1) == 0"),
    "nested map": "lists.range(1000).map(a, lists.range(1000).map(b, lists.range(1000))).size() > 0",
    "nested filter": "lists.range(900).all(a, lists.range(900).filter(b, b == a).size() == 1)",
    "transformMap": "lists.range(90000).transformMap(k, v, lists.range(90000)).size() > 0",
    "long range": "lists.range(9223372036854775807).size() > 0",
    "range times range": "lists.range(900000).map(i, lists.range(900000)).size() > 0",
    "split into characters": nested_binds(22, "'\u1234\u1234\u1234\u1234'", "# + #", "#.split('').size() > 0"),
    "findAll of characters": nested_binds(22, "'aaaa'", "# + #", "#.findAll('a').size() > 0"),
    "findAll that scans to the end for each match": nested_binds(
        18, "'aaaa'", "# + #", "#.findAll('a.*b|a').size() > 0"
    ),
    "pattern with a large program": nested_binds(18, "'aaaa'", "# + #", "#.matches('(a?){1000}b')"),
    "nested quantifiers of a pattern": nested_binds(18, "'aaaa'", "# + #", "#.matches('((a+)+)+b')"),
    "contains of a long substring": nested_binds(20, "'aaaa'", "# + #", "#.contains(# + 'b')"),
    "quote doubles quotation marks": nested_binds(40, "'\"'", "strings.quote(#)", "#.size() > 0"),
    "sets.contains of long lists": "sets.contains(lists.range(5000), lists.range(5000))",
    "sort of a long list": "lists.range(100000).reverse().sort().size() > 0",
}


@pytest.mark.parametrize("source", ATTACKS.values(), ids=ATTACKS)
def test_hostile_expression_uses_bounded_memory_and_time(source: str) -> None:
    """Memory is proportional to the cost limit, so it is measured with a tenth of the limit."""
    program = ENV.compile(source)
    assert is_quick(lambda: evaluate(program, CEL_COST))
    assert peak_memory(lambda: evaluate(program, CEL_COST // 10)) < MOST_MEMORY // 10


@pytest.mark.parametrize("name", ["replace chained 7 times", "replace chained 10 times", "cel.bind doubles a string"])
def test_memory_at_the_full_cost_limit(name: str) -> None:
    program = ENV.compile(ATTACKS[name])
    assert peak_memory(lambda: evaluate(program, CEL_COST)) < MOST_MEMORY


def evaluate(program: Program, limit: int) -> None:
    with suppress(CostLimitExceeded):
        program.evaluate(VARIABLES, limit)


@pytest.mark.parametrize("count", [7, 10])
def test_device_selector_with_chained_replace_is_too_costly(count: int) -> None:
    selector = compile_selector(f"{chained_replace(count)}.size() > 0")
    assert selector.is_too_costly
    with pytest.raises(CostLimitExceeded):
        selector.matches({"driver": "a", "attributes": {}, "capacity": {}, "allowMultipleAllocations": False})


def test_ordinary_selectors_are_not_too_costly() -> None:
    for source in (
        "device.driver == 'a.io'",
        "device.attributes['a.io'].model.startsWith('x') && device.attributes['b.io'].cores in [1, 2]",
        "device.capacity['a.io'].memory.compareTo(quantity('1Gi')) >= 0",
        "cel.bind(a, device.attributes['a.io'], a.cores > 4 && a.model.matches('^[a-z]+$'))",
    ):
        assert not compile_selector(source).is_too_costly


DEEP_AND_LONG: dict[str, Callable[[int], str]] = {
    "nested parentheses": lambda size: "(" * (size // 20) + "1" + ")" * (size // 20),
    "unclosed lists": lambda size: "[" * (size // 2),
    "chained field selections": lambda size: "x" + ".a" * (size * 2 // 5),
    "chained indexes": lambda size: "x" + "[0]" * (size * 3 // 10),
    "long sum": lambda size: "x + " * (size // 5) + "x",
    "nested conditional operators": lambda size: "true ? " * (size // 10) + "true" + " : true" * (size // 10),
    "nested map macros": lambda size: "x.map(a, " * (size // 20) + "a" + ")" * (size // 20),
    "nested map literals": lambda size: "{1: " * (size // 5) + "1" + "}" * (size // 5),
    "nested calls": lambda size: "f(" * (size * 3 // 10) + ")" * (size * 3 // 10),
    "source over the limit": lambda size: "1" * (size + 1),
    "long int literal": lambda size: "1" * (size - 1),
    "unterminated string": lambda size: "'" + "a" * (size * 99 // 100),
    "unclosed all macros": lambda size: "x.all(" * (size // 5),
    "unclosed cel.bind calls": lambda size: "cel.bind(a, " * (size * 2 // 25),
    "long comment": lambda size: "/" * size + "\n(",
}
"""Sources of about the given length, some of which are longer."""


@pytest.mark.parametrize("source_of", DEEP_AND_LONG.values(), ids=DEEP_AND_LONG)
def test_deep_and_long_sources_are_rejected_at_a_bounded_cost(source_of: Callable[[int], str]) -> None:
    """Memory is proportional to the length of the source, so it is measured with a tenth of the longest source."""

    def compile_source(size: int) -> None:
        with pytest.raises(CompileError):
            ENV.compile(source_of(size))

    assert is_quick(lambda: compile_source(100_000))
    assert peak_memory(lambda: compile_source(10_000)) < MOST_MEMORY // 10


def test_length_of_a_compile_error_is_limited() -> None:
    with pytest.raises(CompileError, match="more errors were truncated") as error:
        ENV.compile(" || ".join(["1 == ''"] * 1_000))
    assert len(str(error.value)) < 100_000


@pytest.mark.parametrize(
    "source",
    [
        nested_binds(60, "{1: 1}", "{#: #}", "1 == 1"),
        nested_binds(90, "[]", "[#, #]", "# == #"),
        nested_binds(90, "{1: 1}", "{1: #, 2: #}", "# == #"),
        "[" + ", ".join(["x < x"] * 1_500) + "] == []",
        "[" + ", ".join(["[]"] * 2_500) + "] == []",
        nested_binds(60, "optional.of(1)", "optional.of(#)", "# == #"),
        "x" + ".?a" * 200 + ".hasValue()",
        "x" + ".optMap(v, v)" * 200 + ".hasValue()",
    ],
    ids=[
        "map of maps",
        "list of lists",
        "map with two values",
        "many dyn comparisons",
        "many empty lists",
        "nested optionals",
        "chained optional selections",
        "chained optMap",
    ],
)
def test_cost_of_type_checking_is_bounded(source: str) -> None:
    def compile_source() -> None:
        with suppress(CompileError):
            Environment({"x": DYN}, libraries=(BINDINGS,)).compile(source)

    check_cost(compile_source)


def test_a_long_chain_of_conditions_is_allowed() -> None:
    assert ENV.compile(" && ".join(["true"] * 10_000)).evaluate(VARIABLES) is True
    assert ENV.compile(" || ".join(["false"] * 10_000)).evaluate(VARIABLES) is False
    assert ENV.compile("!" * 90_000 + "true").evaluate(VARIABLES) is True


def test_long_string_literals_are_allowed_and_long_int_literals_rejected() -> None:
    assert ENV.compile(f"'{'a' * 90_000}'.size()").evaluate(VARIABLES) == 90_000
    with pytest.raises(CompileError, match="invalid int literal"):
        ENV.compile("9" * 5_000)


def test_cost_grows_with_the_size_of_the_input() -> None:
    program = ENV.compile("names.all(a, names.all(b, a != b || a == b))")
    program.evaluate({"x": 1, "names": ["n"] * 100, "text": ""})
    with pytest.raises(CostLimitExceeded):
        program.evaluate({"x": 1, "names": ["n"] * 1000, "text": ""})


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=60) | st.text("()[]{}.?:,+-*/%!<>=&|'\"\\ xa1uer\n0bin", max_size=60))
def test_arbitrary_text_gives_a_value_or_an_error(source: str) -> None:
    try:
        program = ENV.compile(source)
        result = program.run({"x": {"a": 1}, "names": ["a"], "text": "b"})
    except CelError:
        return
    assert result.cost <= CEL_COST


_TOKENS = st.sampled_from(
    [
        "x",
        "names",
        "text",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'b'",
        "true",
        "false",
        "null",
        "[]",
        "{}",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        "?",
        ":",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "<",
        "<=",
        ">",
        ">=",
        "==",
        "!=",
        "in",
        "&&",
        "||",
        "x.a",
        "names.all(a,",
        "names.map(a,",
        "has(x.a)",
        "cel.bind(v,",
        "x.?a",
        ".orValue(",
        "optional.of(",
        ".size()",
        "type(",
        "int(",
        "string(",
        "dyn(",
        ".matches(",
        ".replace(",
        ".split(",
        ".join(",
        "timestamp(",
        "duration(",
        "lists.range(",
        ".flatten(",
        ".sort()",
        ".distinct()",
        "a",
        "v",
    ]
)


@settings(max_examples=600, deadline=None)
@given(st.lists(_TOKENS, max_size=14), st.sampled_from([{"a": 1}, [1], "t", 1, 1.5, None, True, {"a": [{"a": "b"}]}]))
def test_arbitrary_tokens_give_a_value_or_an_error(tokens: list[str], value: Any) -> None:
    with suppress(CelError):
        ENV.compile(" ".join(tokens)).evaluate({"x": value, "names": ["a"], "text": "b"}, cost_limit=10_000)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_values_of_the_wrong_type_raise_only_cel_errors(value: Any) -> None:
    for source in (
        "names.all(n, n.startsWith('a'))",
        "text.size() > 1",
        "names + names == []",
        "text + 'a' == text",
        "'a' in names",
        "names.join(',') == text",
        "names.isSorted()",
        "text.matches('a')",
    ):
        with suppress(CelError):
            ENV.compile(source).evaluate({"x": value, "names": value, "text": value})
