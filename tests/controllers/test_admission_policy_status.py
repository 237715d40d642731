from __future__ import annotations

from sampan.api.types.admissionregistration_v1 import (
    MatchResources,
    NamedRuleWithOperations,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from sampan.controllers.admission_policy_status import expression_warnings, matched_kinds


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
    warnings = expression_warnings(
        spec("object.spec.replicas > 1", "object.spec.replicaz > 1", "variables.count == 'x'")
    )
    assert [warning.fieldRef for warning in warnings] == [
        "spec.validations[1].expression",
        "spec.validations[2].expression",
    ]
    assert warnings[0].warning.startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicaz'")
