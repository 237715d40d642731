"""Type checks of the expressions of policies, for built-in kinds and for those of custom resources."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from sampan.api.types.admissionregistration_v1 import (
    MatchResources,
    NamedRuleWithOperations,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from sampan.api.types.apiextensions_v1 import CustomResourceDefinition
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.admission_policy_status import builtin_schema, expression_warnings, matched_kinds
from sampan.machinery.cel.schemas import declared_type
from sampan.machinery.client.discovery import schemas_of_document
from tests.controllers.cluster import cluster
from tests.eventually import eventually
from tests.input_cost import is_cpu_time_within


def spec(*expressions: str, resources: tuple[str, ...] = ("deployments",)) -> ValidatingAdmissionPolicySpec:
    rule = NamedRuleWithOperations(
        operations=["CREATE"], apiGroups=["apps"], apiVersions=["v1"], resources=list(resources)
    )
    return ValidatingAdmissionPolicySpec(
        matchConstraints=MatchResources(resourceRules=[rule]),
        validations=[Validation(expression=text) for text in expressions],
        variables=[Variable(name="count", expression="object.spec.replicas")],
    )


def test_only_kinds_that_a_rule_names_are_checked() -> None:
    kinds = matched_kinds(spec(resources=("deployments", "*", "statefulsets", "deployments/scale", "nothing")))
    assert [kind.kind for kind in kinds] == ["Deployment", "StatefulSet"]


def test_expressions_with_wrong_types_are_reported() -> None:
    policy = spec("object.spec.replicas > 1", "object.spec.replicaz > 1", "variables.count == 'x'")
    kinds = {kind: schema for kind in matched_kinds(policy) if (schema := builtin_schema(kind)) is not None}
    warnings = expression_warnings(policy, kinds)
    assert [warning.fieldRef for warning in warnings] == [
        "spec.validations[1].expression",
        "spec.validations[2].expression",
    ]
    assert warnings[0].warning.startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicaz'")


NAME = "validatingadmissionpolicy-status-controller"
GROUP = "typed.example.com"


def _definition() -> CustomResourceDefinition:
    size = {"type": "integer"}
    spec = {"type": "object", "properties": {"size": size, "names": {"type": "array", "items": {"type": "string"}}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    value = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return msgspec.convert({"metadata": {"name": f"widgets.{GROUP}"}, "spec": value}, CustomResourceDefinition)


def _policy(*expressions: str) -> ValidatingAdmissionPolicy:
    rule = NamedRuleWithOperations(
        operations=["CREATE"], apiGroups=[GROUP, "apps"], apiVersions=["v1"], resources=["widgets", "deployments"]
    )
    policy_spec = ValidatingAdmissionPolicySpec(
        matchConstraints=MatchResources(resourceRules=[rule]),
        validations=[Validation(expression=text) for text in expressions],
    )
    return ValidatingAdmissionPolicy(metadata=ObjectMeta(name="p"), spec=policy_spec)


async def test_expressions_are_checked_with_the_schema_of_a_custom_resource() -> None:
    async with cluster() as here, here.running(NAME):
        await here.client.for_kind(CustomResourceDefinition).create(_definition())
        await here.clock.settle()
        policies = here.client.for_kind(ValidatingAdmissionPolicy)
        policy = _policy(
            "object.metadata.labels['a'] == 'b' && object.apiVersion != ''",
            "object.spec.size == 'large'",
            "object.spec.names.all(name, name > 1)",
            "object.spec.replicas > 1",
        )
        await policies.create(policy)

        async def is_checked() -> bool:
            return (await policies.get("p")).status.typeChecking is not None

        await eventually(is_checked)  # types are checked in a thread
        status = (await policies.get("p")).status
        assert status.typeChecking is not None
        warnings = {row.fieldRef: row.warning for row in status.typeChecking.expressionWarnings}
        assert sorted(warnings) == [f"spec.validations[{index}].expression" for index in (1, 2, 3)]
        assert (
            f"{GROUP}/v1, Kind=Widget: ERROR: <input>:1:18: found no matching overload"
            in warnings["spec.validations[1].expression"]
        )
        assert (
            "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'size'"
            in warnings["spec.validations[1].expression"]
        )
        assert warnings["spec.validations[3].expression"].startswith(f"{GROUP}/v1, Kind=Widget: ERROR")
        assert "Deployment" not in warnings["spec.validations[3].expression"]


def _document(components: dict[str, Any]) -> dict[str, Any]:
    kinds = [{"group": GROUP, "version": "v1", "kind": "Widget"}]
    root = {
        "type": "object",
        "properties": {"metadata": {}, "spec": {"$ref": "#/components/schemas/s0"}},
        "x-kubernetes-group-version-kind": kinds,
    }
    return {"components": {"schemas": {"root": root, **components}}}


def test_recursive_schema_references_are_expanded_to_a_bounded_depth() -> None:
    nested = {
        f"s{level}": {
            "type": "object",
            "properties": {
                name: {"allOf": [{"$ref": f"#/components/schemas/s{(level + 1) % 30}"}]} for name in ("left", "right")
            },
        }
        for level in range(30)
    }
    start = time.process_time()
    (schema,) = schemas_of_document(_document(nested), GROUP, "v1").values()
    assert is_cpu_time_within(time.process_time() - start, 5)
    assert schema.properties["spec"].properties["left"].properties["left"].type == "object"
    assert declared_type(schema, "Widget", is_resource=True) is not None
