"""What Sampan says about the rules of a schema, in the form of the answers of the oracle (`oracle/`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.codec import json as json_codec
from sampan.api.limits import CEL_COST, REQUEST_BODY_BYTES
from sampan.api.schema.tree import from_openapi
from sampan.api.types.apiextensions_v1 import CustomResourceValidation
from sampan.apiserver.customresources.definitions.schemas import validate_schema
from sampan.apiserver.customresources.objects.rules import CheckedRule, RuleScope
from sampan.machinery.cel import CelError
from sampan.machinery.cel.environment import Program
from sampan.machinery.cel.runtime.values import NONE, OptionalValue
from sampan.machinery.cel.schemas import value_adapter

Response = dict[str, Any]


def respond(question: Mapping[str, Any]) -> Response:
    schema = from_openapi(question["schema"])
    scope = RuleScope(schema, is_resource=question.get("isResource", False))
    adapt = value_adapter(schema) or (lambda value: value)
    rules = []
    for source in question["schema"]["x-kubernetes-validations"]:
        rule = CheckedRule(source, scope)
        entry: Response = {"cost": 0}
        if rule.error:
            entry["error"] = rule.error
        elif rule.program is not None:
            entry["cost"] = rule.program.estimated_cost.max
            entry["evaluations"] = [
                _evaluate(rule.program, _variables(pair, adapt, is_optional=rule.has_optional_old))
                for pair in question.get("values", ())
            ]
            if rule.message_error:
                entry["messageError"] = rule.message_error
            elif rule.message_program is not None:
                entry["messageCost"] = rule.message_program.estimated_cost.max
        rules.append(entry)
    return {"minSize": scope.min_size, "cardinality": REQUEST_BODY_BYTES // (scope.min_size + 1), "rules": rules}


def _variables(pair: Mapping[str, Any], adapt: Any, *, is_optional: bool) -> dict[str, Any]:
    old = adapt(pair["oldSelf"]) if "oldSelf" in pair else None
    if is_optional:
        old = OptionalValue(old) if "oldSelf" in pair else NONE
    return {"self": adapt(pair["self"]), "oldSelf": old}


def _evaluate(program: Program, variables: Mapping[str, Any]) -> Response:
    try:
        result = program.run(variables, CEL_COST)
    except CelError as error:
        return {"error": str(error)}
    return {"result": result.value, "cost": result.cost}


def schema_causes(schema: Mapping[str, Any]) -> list[Response]:
    """Return the causes with which Sampan refuses a CustomResourceDefinition with this schema."""
    validation = json_codec.from_value({"openAPIV3Schema": schema}, CustomResourceValidation)
    return [
        {"field": error.field, "message": error.body}
        for error in validate_schema(validation, "spec.validation", has_status=False)
    ]


def definition(schema: Mapping[str, Any]) -> Response:
    """Return a CustomResourceDefinition with this schema."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "examples.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "Example", "plural": "examples"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
