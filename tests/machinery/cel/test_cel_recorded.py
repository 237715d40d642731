"""Validation rules of custom resources, compared with recorded responses of the real API server: exact messages, and
which rules are too costly."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from sampan.api.kubernetes_version import MINOR_VERSION
from sampan.api.schema.tree import from_openapi
from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.checker.types import Type
from sampan.machinery.cel.schemas import declared_type

RECORDINGS = Path(__file__).parents[3] / f"reference/v{MINOR_VERSION}/recordings"
RULE_COST = 10_000_000
_PREFIX = "compilation failed: "


class Rule(NamedTuple):
    field: str
    text: str
    type: Type
    cardinality: int
    """How many values the rule is evaluated for at most."""


def steps(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield requests with their recorded responses. Preparatory steps have no record, because they succeeded."""
    requests = yaml.safe_load((RECORDINGS / f"{name}.yaml").read_text())["steps"]
    recorded = {entry["step"]: entry for entry in json.loads((RECORDINGS / f"{name}.json").read_text())}
    for index, step in enumerate(requests):
        yield step, recorded.get(index, {"step": index, "status": 201, "body": {}})


def rules(schema: dict[str, Any], at: str, cardinality: int, *, is_root: bool = False) -> Iterator[Rule]:
    type_ = declared_type(from_openapi(schema), at, is_resource=is_root)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        for key in ("rule", "messageExpression"):
            if rule.get(key) and type_ is not None:
                yield Rule(f"{at}.x-kubernetes-validations[{index}].{key}", rule[key], type_, cardinality)
    for name, inner in (schema.get("properties") or {}).items():
        yield from rules(inner, f"{at}.properties[{name}]", cardinality)
    size = type_.max_size if type_ is not None else None
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from rules(schema[key], f"{at}.{key}", cardinality * (size or 1))


def rule_error(rule: Rule) -> str:
    """Return the compilation error of a rule, or that it is too costly; an empty string if the rule is valid."""
    try:
        program = Environment({"self": rule.type, "oldSelf": rule.type}).compile(rule.text)
    except CelError as error:
        return f"{_PREFIX}{error}"
    kind = "messageExpression" if rule.field.endswith("messageExpression") else "rule"
    if program.estimated_cost.max * rule.cardinality > RULE_COST * 100:
        return f"estimated {kind} cost exceeds budget by factor of more than 100x"
    return ""


def cases() -> Iterator[Any]:
    for name in ("crd-cel-invalid", "crd-cel"):
        for request, recorded in steps(name):
            body = request.get("body")
            if isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition":
                yield pytest.param(body, recorded, id=f"{name}: {request.get('name', recorded.get('step'))}")


@pytest.mark.parametrize(("body", "recorded"), [*cases()])
def test_rules_have_the_same_errors_as_on_the_real_server(body: dict[str, Any], recorded: dict[str, Any]) -> None:
    response = recorded["body"] if isinstance(recorded["body"], dict) else {}
    causes = {
        cause["field"].replace("spec.validation.", ""): cause["message"]
        for cause in (response.get("details") or {}).get("causes") or ()
        if _PREFIX in cause["message"] or "budget by factor" in cause["message"]
    }
    version = body["spec"]["versions"][0]
    errors = {
        rule.field: error
        for rule in rules(version["schema"]["openAPIV3Schema"], "openAPIV3Schema", 1, is_root=True)
        if (error := rule_error(rule))
    }
    causes.pop("openAPIV3Schema", None)
    assert set(errors) == set(causes)
    assert [field for field, error in errors.items() if error not in causes[field]] == []
