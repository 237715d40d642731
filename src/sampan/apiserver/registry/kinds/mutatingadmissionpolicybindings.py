"""MutatingAdmissionPolicyBinding: applies a mutating policy to resources, with parameters."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.admissionregistration_v1 import MutatingAdmissionPolicyBinding
from sampan.apiserver.registry.admission_configs.match_resources import validate_mutable_operations
from sampan.apiserver.registry.admission_configs.policies import PolicyBindingStrategy, validate_binding_spec
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.registry.validation import validate_required


class MutatingBindingStrategy(PolicyBindingStrategy):
    def validate_create(self, ctx: Context, obj: MutatingAdmissionPolicyBinding) -> Iterable[FieldError]:
        yield from validate_required(obj.spec.policyName, "spec.policyName")
        yield from validate_binding_spec(obj.spec)
        if obj.spec.matchResources is not None:
            yield from validate_mutable_operations(obj.spec.matchResources, "spec.matchResources")

    def validate_update(
        self, ctx: Context, obj: MutatingAdmissionPolicyBinding, old: MutatingAdmissionPolicyBinding
    ) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


BEHAVIOR = ResourceBehavior(strategy=MutatingBindingStrategy())
