"""Expressions: what they give, how they fail, and Kubernetes' own functions."""

from typing import Any

import pytest

from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.quantities import FUNCTIONS, quantity_value, version_value

ENV = Environment(variables=("x", "q", "v"), functions=FUNCTIONS)
VALUES: dict[str, Any] = {
    "x": {"name": "a", "list": [1, 2], "sub": {"on": True}},
    "q": quantity_value("10Gi"),
    "v": version_value("1.2.3"),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('x.name == "a" && x.sub.on', True),
        ("has(x.sub.off)", False),
        ('"sub" in x', True),
        ("x.list.all(n, n > 0)", True),
        ("x.name.upperAscii()", "A"),
        ("cel.bind(n, x.list[1], n * 2)", 4),
        ("x.?gone.orValue(7)", 7),
        ('{"a": [1, 2.5, "s"]}', {"a": [1, 2.5, "s"]}),
        ('q.compareTo(quantity("10240Mi"))', 0),
        ('q.isGreaterThan(quantity("9Gi"))', True),
        ('q.isLessThan(quantity("9Gi"))', False),
        ("q.asInteger()", 10 * 2**30),
        ('isQuantity("1x")', False),
        ('v.compareTo(semver("1.10.0")) < 0', True),
        ('semver("1.0.0-alpha").isLessThan(semver("1.0.0"))', True),
        ("[v.major(), v.minor(), v.patch()]", [1, 2, 3]),
        ('isSemver("1.0")', False),
    ],
)
def test_values(text: str, wanted: object) -> None:
    assert ENV.compile(text).evaluate(VALUES) == wanted


@pytest.mark.parametrize("text", ["x.gone == 1", "x.list[5]", "1 / 0 == 1", 'quantity("x")', "x.name + 1"])
def test_what_fails_when_it_is_evaluated(text: str) -> None:
    with pytest.raises(CelError):
        ENV.compile(text).evaluate(VALUES)


@pytest.mark.parametrize("text", ["1 +", "y", "x.unknown()", '"a" + 1'])
def test_what_cannot_be_compiled(text: str) -> None:
    with pytest.raises(CelError):
        ENV.compile(text)


def test_the_same_text_is_compiled_once() -> None:
    assert ENV.compile("x.name") is ENV.compile("x.name")
