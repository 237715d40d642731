"""MutatingAdmissionPolicy: CEL expressions that modify objects on admission."""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.admissionregistration_v1 import MutatingAdmissionPolicy, MutatingAdmissionPolicySpec, Mutation
from sampan.apiserver.registry.admission_configs.matching import REINVOCATION_POLICIES, change_only_faults
from sampan.apiserver.registry.admission_configs.policies import (
    PolicyStrategy,
    expression_faults,
    policy_columns,
    start_faults,
)
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.podspec.formats import Faults, given, one_of
from sampan.apiserver.registry.strategy import Column, Context

_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


class MutatingAdmissionPolicyStrategy(PolicyStrategy):
    columns = policy_columns(
        Column(
            "Mutations",
            lambda found, now: len(found.spec.mutations),
            type="integer",
            description="Mutation indicates the number of mutations rules defined in this configuration",
        )
    )

    def validate_create(self, ctx: Context, obj: MutatingAdmissionPolicy) -> Iterable[FieldError]:
        return _faults(obj.spec, None)

    def validate_update(
        self, ctx: Context, obj: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy
    ) -> Iterable[FieldError]:
        return _faults(obj.spec, old.spec)


def _faults(spec: MutatingAdmissionPolicySpec, old: MutatingAdmissionPolicySpec | None) -> Faults:
    yield from start_faults(spec)
    if spec.matchConstraints is not None:
        yield from change_only_faults(spec.matchConstraints, "spec.matchConstraints")
    yield from expression_faults(spec, old)
    if not spec.mutations:
        yield FieldError.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.mutations):
        yield from _mutation_faults(mutation, f"spec.mutations[{index}]")
    yield from one_of(spec.reinvocationPolicy, REINVOCATION_POLICIES, "spec.reinvocationPolicy")


def _mutation_faults(mutation: Mutation, at: str) -> Faults:
    kind = mutation.patchType
    yield from one_of(kind, sorted(_PATCHES), f"{at}.patchType")
    if kind not in _PATCHES:
        return
    for other, field in sorted(_PATCHES.items(), key=lambda pair: pair[0] != kind):
        patch, path = getattr(mutation, field), f"{at}.{field}"
        if other != kind and patch is not None:
            yield FieldError.invalid(path, f"{{{field}}}", f"must not be specified when patchType is {kind}")
        elif other == kind and patch is None:
            yield FieldError.required(path, f"must be specified when patchType is {kind}")
        elif patch is not None:
            yield from given(patch.expression.strip(), f"{path}.expression")


BEHAVIOUR = ResourceBehaviour(strategy=MutatingAdmissionPolicyStrategy())
