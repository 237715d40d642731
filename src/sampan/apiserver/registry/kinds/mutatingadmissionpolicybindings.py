"""MutatingAdmissionPolicyBinding: applies a mutating policy to resources, with parameters."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.admissionregistration_v1 import (
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
)
from sampan.apiserver.registry.admission_configs.match_resources import validate_mutable_operations
from sampan.apiserver.registry.admission_configs.policies import PolicyBindingStrategy, validate_binding_spec
from sampan.apiserver.registry.admission_configs.reserved_names import validate_new_name
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.registry.validation import FieldErrors, validate_required


class MutatingBindingStrategy(PolicyBindingStrategy):
    def validate_create(self, ctx: Context, obj: MutatingAdmissionPolicyBinding) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec)
        yield from validate_new_name(ctx, obj)

    def validate_update(
        self, ctx: Context, obj: MutatingAdmissionPolicyBinding, old: MutatingAdmissionPolicyBinding
    ) -> Iterable[FieldError]:
        return _validate_spec(obj.spec)


def _validate_spec(spec: MutatingAdmissionPolicyBindingSpec) -> FieldErrors:
    yield from validate_required(spec.policyName, "spec.policyName")
    yield from validate_binding_spec(spec)
    if spec.matchResources is not None:
        yield from validate_mutable_operations(spec.matchResources, "spec.matchResources")


BEHAVIOR = ResourceBehavior(strategy=MutatingBindingStrategy())
