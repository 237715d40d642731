"""Rules are answered as the real implementation answers them: types, estimated and actual costs, and the causes with
which definitions are refused. The answers are recorded (`rule_vectors`); `make operators` asks again."""

import copy
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.machinery.cel.library import authorizer, kubernetes
from sampan.machinery.cel.syntax.ast import CallNode
from sampan.machinery.cel.syntax.parser import parse
from tests.machinery.cel.oracle_program import PROGRAM, Oracle, running_oracle
from tests.machinery.cel.rule_answers import definition, respond, schema_causes
from tests.machinery.cel.rule_expressions import expressions
from tests.machinery.cel.rule_schemas import schemas
from tests.machinery.cel.rule_vectors import (
    DEVIATING_COSTS,
    RESPONSES_FILE,
    RULES,
    SCHEMAS,
    ask,
    question,
    read_answers,
)

RECORDED = read_answers()
ACTUAL = dict(zip(RULES, respond(question(RULES))["rules"], strict=True))


DEPENDS_ON_ORDER = re.compile(r"\bself\.m\.(map|filter)\(")
"""Rules that make a list of the keys of a map, whose order is random in Go."""


def test_every_operator_macro_and_function_is_in_a_rule() -> None:
    """The functions of the authorizer are in the expressions of policies only."""
    libraries = kubernetes()
    macros = {key: macro for library in libraries for key, macro in library.macros.items()}
    functions = {name for library in libraries for name in library.functions} - set(authorizer.LIBRARY.functions)
    called = {node.function for rule in RULES for node in parse(rule, macros).walk() if isinstance(node, CallNode)}
    words = set(re.findall(r"[\w.]+(?=\()", " ".join(RULES)))
    assert {name for name in functions - called if name not in words} == set()
    assert {name for name, *_ in macros} <= {word.rpartition(".")[2] for word in words}


def test_sizes_of_values_are_those_recorded() -> None:
    responses = respond(question(RULES))
    assert (responses["minSize"], responses["cardinality"]) == (RECORDED["minSize"], RECORDED["cardinality"])


@pytest.mark.parametrize("rule", RULES)
def test_rule_has_the_recorded_estimate_and_result(rule: str) -> None:
    recorded, actual = RECORDED["rules"][rule], ACTUAL[rule]
    assert _without_numbers(actual.get("error", "")) == _without_numbers(recorded.get("error", ""))
    assert actual["cost"] == recorded["cost"]
    assert _outcomes(actual) == _outcomes(recorded)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in DEVIATING_COSTS])
def test_evaluation_has_the_recorded_cost(rule: str) -> None:
    assert _costs(ACTUAL[rule]) == _costs(RECORDED["rules"][rule])


@pytest.mark.parametrize("rule", sorted(DEVIATING_COSTS))
def test_costs_of_other_evaluations_differ_by_little(rule: str) -> None:
    """The deviating costs are listed, so that a rule which no longer deviates is noticed."""
    ((actual,), (recorded,)) = _costs(ACTUAL[rule]), _costs(RECORDED["rules"][rule])
    assert actual != recorded
    assert abs(actual - recorded) <= max(4, recorded // 2)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_has_the_recorded_causes(name: str) -> None:
    assert _normalize(schema_causes(SCHEMAS[name])) == _normalize(RECORDED["causes"][name])


def _outcomes(rule: dict[str, Any]) -> list[Any]:
    return ["failed" if "error" in entry else entry.get("result", False) for entry in rule.get("evaluations", ())]


def _costs(rule: dict[str, Any]) -> list[Any]:
    return [None if "error" in entry else entry["cost"] for entry in rule.get("evaluations", ())]


def _normalize(causes: list[dict[str, str]]) -> list[tuple[str, str]]:
    return sorted((cause["field"], _without_numbers(cause["message"])) for cause in causes)


def _without_numbers(message: str) -> str:
    """Return an error without the numbers of type names, which are the nanoseconds of the time."""
    return re.sub(r"selfType\d+", "selfType", message)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    if not os.environ.get("SAMPAN_BUILD_OPERATORS"):
        pytest.skip("the real implementation is asked by `make operators`, which builds it from Go modules")
    with running_oracle(PROGRAM.build_or_skip()) as oracle:
        yield oracle


def test_recorded_answers_are_those_of_the_oracle(oracle: Oracle) -> None:
    responses, recorded = ask(oracle), copy.deepcopy(RECORDED)
    for name, causes in responses.pop("causes").items():
        assert _normalize(causes) == _normalize(recorded["causes"][name]), (
            f"{RESPONSES_FILE.name} is out of date: {name}"
        )
    del recorded["causes"]
    for rule in DEVIATING_COSTS:  # some depend on the order of a map, which is random in Go
        for rules in (responses["rules"], recorded["rules"]):
            rules[rule] = _outcomes(rules[rule])
    assert _without_numbers(str(responses)) == _without_numbers(str(recorded)), f"{RESPONSES_FILE.name} is out of date"


@settings(max_examples=300, deadline=None)
@given(rules=st.lists(expressions(), min_size=1, max_size=10))
def test_expressions_have_the_estimates_of_the_oracle(oracle: Oracle, rules: list[str]) -> None:
    responses = oracle.ask(question(rules))["rules"]
    for rule, expected, actual in zip(rules, responses, respond(question(rules))["rules"], strict=True):
        assert bool(actual.get("error")) == bool(expected.get("error")), (rule, expected)
        assert actual["cost"] == expected["cost"], rule
        if not DEPENDS_ON_ORDER.search(rule):
            assert _outcomes(actual) == _outcomes(expected), rule


@settings(max_examples=300, deadline=None)
@given(schema=schemas())
def test_schemas_have_the_causes_of_the_oracle(oracle: Oracle, schema: dict[str, Any]) -> None:
    responses = oracle.ask({"definition": definition(schema)})
    assert _normalize(schema_causes(schema)) == _normalize(responses.get("causes", []))
