"""MutatingAdmissionPolicy: CEL expressions that modify objects on admission."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.admissionregistration_v1 import MutatingAdmissionPolicy, MutatingAdmissionPolicySpec, Mutation
from sampan.apiserver.registry.admission_configs.match_resources import (
    REINVOCATION_POLICIES,
    expression_error,
    validate_mutable_operations,
)
from sampan.apiserver.registry.admission_configs.policies import (
    PolicyStrategy,
    policy_columns,
    validate_conditions_and_variables,
    validate_failure_policy_and_match,
)
from sampan.apiserver.registry.admission_configs.reserved_names import validate_new_name
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context
from sampan.apiserver.registry.validation import FieldErrors, validate_one_of
from sampan.machinery.cel.admission import PolicyExpressionCompiler, mutating_compiler
from sampan.machinery.cel.errors import CelError

_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


class MutatingAdmissionPolicyStrategy(PolicyStrategy):
    columns = policy_columns(
        Column(
            "Mutations",
            lambda policy, now: len(policy.spec.mutations),
            type="integer",
            description="Mutation indicates the number of mutations rules defined in this configuration",
        )
    )

    def validate_create(self, ctx: Context, obj: MutatingAdmissionPolicy) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec, None)
        yield from validate_new_name(ctx, obj)

    def validate_update(
        self, ctx: Context, obj: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy
    ) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, old.spec)


def _validate_spec(spec: MutatingAdmissionPolicySpec, old: MutatingAdmissionPolicySpec | None) -> FieldErrors:
    compiler = mutating_compiler(has_params=spec.paramKind is not None, has_variables=bool(spec.variables))
    yield from validate_failure_policy_and_match(spec)
    if spec.matchConstraints is not None:
        yield from validate_mutable_operations(spec.matchConstraints, "spec.matchConstraints")
    yield from validate_conditions_and_variables(spec, old, compiler)
    if not spec.mutations:
        yield FieldError.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.mutations):
        yield from _validate_mutation(mutation, f"spec.mutations[{index}]", compiler)
    yield from validate_one_of(spec.reinvocationPolicy, REINVOCATION_POLICIES, "spec.reinvocationPolicy")


def _validate_mutation(mutation: Mutation, field_path: str, compiler: PolicyExpressionCompiler) -> FieldErrors:
    kind = mutation.patchType
    yield from validate_one_of(kind, sorted(_PATCHES), f"{field_path}.patchType")
    if kind not in _PATCHES:
        return
    for other, field in sorted(_PATCHES.items(), key=lambda pair: pair[0] != kind):
        patch, path = getattr(mutation, field), f"{field_path}.{field}"
        if other != kind and patch is not None:
            yield FieldError.invalid(path, f"{{{field}}}", f"must not be specified when patchType is {kind}")
        elif other == kind and patch is None:
            yield FieldError.required(path, f"must be specified when patchType is {kind}")
        elif patch is not None:
            yield from _validate_patch(patch.expression, f"{path}.expression", kind, compiler)


def _validate_patch(text: str, path: str, kind: str, compiler: PolicyExpressionCompiler) -> FieldErrors:
    if not text.strip():
        yield FieldError.required(path)
        return
    try:
        compiler.mutation(text, kind)
    except CelError as error:
        yield expression_error(path, text, error)


BEHAVIOR = ResourceBehavior(strategy=MutatingAdmissionPolicyStrategy())
