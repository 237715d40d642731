"""Validation of applied objects against their schema."""

from typing import Any

import pytest

from sampan.machinery.apply.items import SchemaMismatch
from sampan.machinery.apply.validation import check, validate_live
from tests.machinery.apply.widgets import ATOM, with_spec


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"colour": "red"}, ".spec.colour: field not declared in schema"),
        ({"number": "1"}, ".spec.number: expected numeric (int or float), got string"),
        ({"number": {"a": 1}}, ".spec.number: expected numeric (int or float), got map[string]interface {}"),
        ({"text": 1000000}, ".spec.text: expected string, got &value.valueUnstructured{Value:1e+06}"),
        (
            {"text": {"a": ["b", None]}},
            '.spec.text: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":'
            '[]interface {}{"b", interface {}(nil)}}}',
        ),
        ({"flag": "yes"}, ".spec.flag: expected boolean, got &{yes}"),
        ({"set": "a"}, ".spec.set: expected list, got &{a}"),
        ({"map": [1]}, ".spec.map: expected map, got &{[1]}"),
        ({"set": ["a", "a"]}, '.spec.set: duplicate entries for key [="a"]'),
        (
            {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
        ),
        ({"named": [{"name": "a", "x": 1}]}, '.spec.named[name="a"].x: field not declared in schema'),
        ({"plain": ["a", 1]}, ".spec.plain[1]: expected string, got &value.valueUnstructured{Value:1}"),
        (
            {"named": [{"value": 1}]},
            '.spec.named: element 0: associative list with keys has an element that omits all key fields ["name"] '
            "(and doesn't have default values for any key fields)",
        ),
        (
            {"flag": 1, "text": True},
            "errors:\n  .spec.flag: expected boolean, got &{1}\n"
            "  .spec.text: expected string, got &value.valueUnstructured{Value:true}",
        ),
    ],
)
def test_validation_errors(spec: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        check(with_spec(**spec), ATOM)
    assert str(caught.value) == text


def test_valid_object_has_no_errors() -> None:
    check(
        with_spec(text=None, set=None, either="1", free={"a": [1]}, ports=[{"port": 1}, {"port": 1, "protocol": "U"}]),
        ATOM,
    )


def test_a_live_object_may_have_duplicates() -> None:
    assert validate_live(with_spec(set=["a", "a"]), ATOM) == ""
    assert validate_live(with_spec(number="x"), ATOM).startswith(".spec.number: expected numeric")
