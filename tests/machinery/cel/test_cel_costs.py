"""Actual and estimated cost of evaluations: the cost models of cel-go and of Kubernetes' libraries."""

from typing import Any

import pytest

from sampan.machinery.cel import CostLimitExceeded, Environment
from sampan.machinery.cel.checker.estimate import MAX_COST, Range
from sampan.machinery.cel.checker.types import DYN, INT, STRING, ObjectType, limit_size, list_of, map_of
from sampan.machinery.cel.library import BINDINGS
from sampan.machinery.cel.library.authorizer import AUTHORIZER, AccessAttributes, AuthorizerValue, DecisionValue

_SELF = ObjectType(
    "test.Self",
    {
        "n": INT,
        "name": limit_size(STRING, 20),
        "text": STRING,
        "list": list_of(limit_size(STRING, 10), max_size=5),
        "numbers": list_of(INT, max_size=8),
        "map": map_of(limit_size(STRING, 4), INT, max_size=3),
    },
)
ENV = Environment({"self": _SELF, "x": DYN, "authorizer": AUTHORIZER}, libraries=(BINDINGS,))
VALUES: dict[str, Any] = {
    "self": {
        "n": 3,
        "name": "a" * 15,
        "text": "b" * 25,
        "list": ["aaaaaaaaaa", "b", "c"],
        "numbers": [1, 2, 3],
        "map": {"a": 1, "b": 2},
    },
    "x": {"y": {"z": 1}},
    "authorizer": AuthorizerValue(lambda question: DecisionValue(is_allowed=question.verb == "get")),
}


@pytest.mark.parametrize(
    ("text", "cost", "estimate"),
    [
        ("true", 0, (0, 0)),
        ("self.n", 2, (2, 2)),
        ("x.y.z", 3, (1, 1)),
        ("has(self.n)", 1, (1, 1)),
        ("self.n == 3", 3, (2, 2)),
        ("self.n + 1 > 2", 4, (4, 4)),
        ("self.n > 1 && self.n > 2", 6, (3, 6)),
        ("self.n > 9 && self.n > 2", 3, (3, 6)),
        ("self.n > 1 ? 1 : self.n + self.n", 3, (3, 8)),
        ("self.name == 'abc'", 3, (3, 3)),
        ("self.name < self.text", 6, (5, 6)),
        ("self.name.startsWith('ab')", 3, (3, 3)),
        ("self.name.contains('ab')", 4, (2, 4)),
        ("self.name + self.text", 8, (4, 1844674407370955264 + 4)),
        ("self.name.matches('[a-z]+')", 6, (4, 8)),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3, (3, 3)),
        ("'abc 123 def 123'.replace('123', '456')", 3, (3, 3)),
        ("'abc 123 def 123'.find('123')", 2, (2, 2)),
        ("'abc 123 def 123'.split(' ')", 3, (3, 3)),
        ("[1, 2, self.n]", 12, (12, 12)),
        ("{'a': self.n}", 32, (32, 32)),
        ("1 in [1, 2, 3]", 0, (13, 13)),
        ("'a' in self.list", 5, (2, 7)),
        ("self.list.all(e, e != '')", 2 + 1 + 3 * (3 + 1), (3, 2 + 1 + 5 * 4)),
        ("self.list.exists(e, e == 'b')", 2 + 1 + 2 * (4 + 1 + 1) + 3, (3, 2 + 1 + 5 * 6)),
        ("self.numbers.map(e, e + 1)", 2 + 1 + 3 * 14, (13, 2 + 11 + 8 * 14)),
        ("self.numbers.filter(e, e > 1)", 2 + 1 + 3 * 2 + 13 * 2, (13, 2 + 11 + 8 * 15)),
        ("self.numbers.exists_one(e, e == 1)", 2 + 2 + 3 * 2 + 2, (4, 2 + 2 + 8 * 3)),
        ("self.numbers.sum()", 5, (2, 10)),
        ("self.list.isSorted()", 3, (2, 12)),
        ("self.map.all(k, k.size() > 0)", 2 + 1 + 2 * 6, (3, 2 + 1 + 3 * 6)),
        ("cel.bind(a, self.n, a + a)", 5, (15, 15)),
        ("sets.contains(self.numbers, self.numbers)", 4 + 9 + 1, (5, 4 + 64 + 1)),
        ("lists.range(10)", 21, (21, 21)),
        ("self.numbers.sort()", 2 + 18 + 11, (13, 2 + 128 + 11)),
        ("quantity('10Mi').isGreaterThan(quantity('1Mi'))", 3, (3, 3)),
        ("ip('10.0.0.1').family()", 2, (2, 2)),
        ("cidr('192.168.0.0/24').containsIP('192.168.0.1')", 2 + 1 + 2, (2 + 1 + 2, 2 + 4 + 2)),
        ("authorizer.path('/').check('get').allowed()", 350_003, (350_003, 350_003)),
    ],
)
def test_actual_and_estimated_cost(text: str, cost: int, estimate: tuple[int, int]) -> None:
    program = ENV.compile(text)
    assert program.run(VALUES).cost == cost
    assert program.estimated_cost == Range(*estimate)


@pytest.mark.parametrize("text", ["self.text.matches(self.text)", "self.text.contains(self.text)", "x.y == x"])
def test_unbounded_sizes_have_the_largest_estimate(text: str) -> None:
    assert ENV.compile(text).estimated_cost.max > MAX_COST // 100


def test_estimate_of_chained_replace_grows_with_the_strings() -> None:
    costs = [
        ENV.compile("self.name" + ".replace('a', 'aaaaaaaaaa')" * count).estimated_cost.max for count in range(1, 9)
    ]
    assert costs[-1] > 10**7 * costs[0] // 10
    assert costs == sorted(costs)


def test_evaluation_stops_at_the_cost_limit() -> None:
    program = ENV.compile("self.numbers.all(e, e > 0)")
    cost = program.run(VALUES).cost
    assert program.evaluate(VALUES, cost_limit=cost) is True
    with pytest.raises(CostLimitExceeded, match="operation cancelled: actual cost limit exceeded"):
        program.evaluate(VALUES, cost_limit=cost - 1)


def test_exceeded_cost_limit_is_not_absorbed_by_logical_or() -> None:
    program = ENV.compile("lists.range(2000000).size() > 0 || true")
    with pytest.raises(CostLimitExceeded):
        program.evaluate(VALUES)


def test_authorizer_check_passes_all_attributes() -> None:
    questions: list[AccessAttributes] = []

    def ask(question: AccessAttributes) -> DecisionValue:
        questions.append(question)
        return DecisionValue(is_allowed=True, reason="because")

    checked = "authorizer.serviceAccount('ns', 'sa').group('apps').resource('deployments').namespace('n').check('get')"
    assert ENV.compile(f"{checked}.reason()").evaluate({**VALUES, "authorizer": AuthorizerValue(ask)}) == "because"
    assert questions == [
        AccessAttributes(service_account=("ns", "sa"), group="apps", resource="deployments", namespace="n", verb="get")
    ]


def test_third_authorizer_check_exceeds_the_cost_limit() -> None:
    check = "authorizer.path('/').check('get').allowed()"
    assert ENV.compile(f"{check} && {check}").evaluate(VALUES) is True
    with pytest.raises(CostLimitExceeded):
        ENV.compile(f"{check} && {check} && {check}").evaluate(VALUES)
