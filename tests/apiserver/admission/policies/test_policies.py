from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.admission.policies.policy_cluster import CONFIGMAPS, RULES, policies
from tests.apiserver.in_process_server import run


@pytest.mark.parametrize(
    ("validation", "code", "message"),
    [
        ({"expression": "object.metadata.name != 'a'"}, 422, "failed expression: object.metadata.name != 'a'"),
        ({"expression": "false", "message": "never", "reason": "Forbidden"}, 403, "never"),
        ({"expression": "false", "messageExpression": "'it is ' + object.metadata.name"}, 422, "it is a"),
        ({"expression": "false", "messageExpression": "'it is ' + object.nothing", "message": "plain"}, 422, "plain"),
        (
            {"expression": "object.nothing == 1"},
            422,
            "expression 'object.nothing == 1' resulted in error: no such key: nothing",
        ),
        ({"expression": "namespaceObject.metadata.labels['team'] == 'a'"}, 201, ""),
        ({"expression": "authorizer.group('').resource('pods').namespace('ns').check('get').allowed()"}, 201, ""),
        ({"expression": "!has(request.options.fieldManager) && request.operation == 'CREATE'"}, 201, ""),
    ],
    ids=str,
)
def test_validation_decides_status_code_and_message(validation: dict[str, Any], code: int, message: str) -> None:
    async def work() -> None:
        async with policies() as cluster:
            await cluster.validate(validation)
            reply = await cluster.create()
            assert reply.code == code, reply.body
            if code != 201:
                start = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
                assert reply.json["message"] == start + message

    run(work())


def test_variables_are_evaluated_lazily_and_can_use_earlier_variables() -> None:
    async def work() -> None:
        async with policies() as cluster:
            variables = [
                {"name": "data", "expression": "has(object.data) ? object.data : {}"},
                {"name": "count", "expression": "size(variables.data)"},
                {"name": "broken", "expression": "object.nothing"},
            ]
            await cluster.validate({"expression": "variables.count < 2 || variables.broken"}, variables=variables)
            assert (await cluster.create(data={"k": "v"})).code == 201
            assert (await cluster.create("b", data={"k": "v", "l": "w"})).code == 422

    run(work())


def test_variable_is_evaluated_once_for_all_validations() -> None:
    """A variable counts once against the cost budget of the policy, which twenty evaluations of this one exceed."""

    async def work() -> None:
        async with policies() as cluster:
            loop = "object.data.all(a, object.data.all(b, object.data.all(c, a != 'x' && b != 'x' && c != 'x')))"
            validations = [{"expression": f"variables.costly || {number} == 0"} for number in range(1, 21)]
            await cluster.validate(*validations, variables=[{"name": "costly", "expression": loop}])
            reply = await cluster.create(data={f"k{index}": "v" for index in range(40)})
            assert reply.code == 201, reply.body

    run(work())


def test_evaluation_error_is_ignored_with_failure_policy_ignore() -> None:
    async def work() -> None:
        async with policies() as cluster:
            await cluster.validate({"expression": "object.nothing == 1"}, failurePolicy="Ignore")
            assert (await cluster.create()).code == 201

    run(work())


def test_a_binding_can_warn_instead_of_denying() -> None:
    async def work() -> None:
        async with policies() as cluster:
            await cluster.validate({"expression": "false", "message": "careful"}, actions=("Warn", "Audit"))
            warnings = await cluster.cluster.collect_warnings(CONFIGMAPS, {"metadata": {"name": "a"}})
            assert warnings == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': careful"]

    run(work())


@pytest.mark.parametrize(
    "reference",
    [
        {"name": "limit"},
        {"name": "limit", "namespace": "ns"},
        {"selector": {"matchLabels": {"role": "limit"}}},
    ],
    ids=str,
)
def test_parameters_are_found_by_name_or_by_label(reference: dict[str, Any]) -> None:
    async def work() -> None:
        async with policies() as cluster:
            await cluster.create("other", data={"max": "0"})
            await cluster.create("limit", data={"max": "3"}, metadata={"labels": {"role": "limit"}})
            await cluster.validate(
                {"expression": "size(object.data) <= int(params.data.max)"},
                paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
                paramRef={**reference, "parameterNotFoundAction": "Deny"},
            )
            assert (await cluster.create("a", data={"k": "v"})).code == 201
            assert (await cluster.create("b", data=dict.fromkeys("abcd", "v"))).code == 422

    run(work())


def test_a_missing_parameter_denies_the_request() -> None:
    async def work() -> None:
        async with policies() as cluster:
            await cluster.validate(
                {"expression": "true"},
                paramKind={"apiVersion": "v1", "kind": "Secret"},
                paramRef={"name": "none", "parameterNotFoundAction": "Deny"},
            )
            reply = await cluster.create()
            assert "no params found for policy binding with `Deny` parameterNotFoundAction" in reply.json["message"]

    run(work())


def test_an_expression_that_costs_too_much_fails() -> None:
    async def work() -> None:
        async with policies() as cluster:
            loop = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a != 'x'))))"
            await cluster.validate({"expression": loop})
            reply = await cluster.create(data={f"k{index}": "v" for index in range(60)})
            assert reply.code == 422
            assert "operation cancelled: actual cost limit exceeded" in reply.json["message"]

    run(work())


@pytest.mark.parametrize(
    ("patch_type", "expression"),
    [
        ("ApplyConfiguration", 'Object{metadata: Object.metadata{labels: {"added": "yes"}}}'),
        ("JSONPatch", '[JSONPatch{op: "add", path: "/metadata/labels", value: {"added": "yes"}}]'),
    ],
)
def test_a_mutating_policy_changes_the_object(patch_type: str, expression: str) -> None:
    async def work() -> None:
        async with policies() as cluster:
            field = "applyConfiguration" if patch_type == "ApplyConfiguration" else "jsonPatch"
            mutation = {"patchType": patch_type, field: {"expression": expression}}
            spec = {"mutations": [mutation], "reinvocationPolicy": "Never"}
            await cluster.add(
                "MutatingAdmissionPolicy", {**spec, "matchConstraints": {"resourceRules": _create_and_update_rules()}}
            )
            reply = await cluster.create()
            assert reply.json["metadata"]["labels"] == {"added": "yes"}

    run(work())


def test_apply_configuration_with_wrong_object_type_is_rejected() -> None:
    async def work() -> None:
        async with policies() as cluster:
            expression = 'Object{metadata: Object.spec{labels: {"added": "yes"}}}'
            mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
            spec = {"mutations": [mutation], "reinvocationPolicy": "Never"}
            await cluster.add(
                "MutatingAdmissionPolicy", {**spec, "matchConstraints": {"resourceRules": _create_and_update_rules()}}
            )
            reply = await cluster.create()
            assert reply.code == 403
            assert 'unexpected type name "Object.spec", expected "Object.metadata"' in reply.json["message"]

    run(work())


def _create_and_update_rules() -> list[dict[str, Any]]:
    return [{**rule, "operations": ["CREATE", "UPDATE"]} for rule in RULES]
