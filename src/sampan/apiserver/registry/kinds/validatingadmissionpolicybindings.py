"""ValidatingAdmissionPolicyBinding: applies a validating policy to resources, with parameters and actions."""

from collections.abc import Iterable, Sequence

from sampan.api.field_errors import FieldError
from sampan.api.types.admissionregistration_v1 import (
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
)
from sampan.apiserver.registry.admission_configs.policies import PolicyBindingStrategy, validate_binding_spec
from sampan.apiserver.registry.admission_configs.reserved_names import validate_new_name
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.registry.validation import FieldErrors, validate_optional_one_of, validate_unique

_ACTIONS = ("Audit", "Deny", "Warn")
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


class ValidatingBindingStrategy(PolicyBindingStrategy):
    def validate_create(self, ctx: Context, obj: ValidatingAdmissionPolicyBinding) -> Iterable[FieldError]:
        yield from _validate_spec(obj.spec)
        yield from validate_new_name(ctx, obj)

    def validate_update(
        self, ctx: Context, obj: ValidatingAdmissionPolicyBinding, old: ValidatingAdmissionPolicyBinding
    ) -> Iterable[FieldError]:
        return _validate_spec(obj.spec)


def _validate_spec(spec: ValidatingAdmissionPolicyBindingSpec) -> FieldErrors:
    yield from validate_binding_spec(spec)
    yield from _validate_action(spec.validationActions, "spec.validationActions")


def _validate_action(actions: Sequence[str], path: str) -> FieldErrors:
    distinct_actions: set[str] = set()
    for index, action in enumerate(actions):
        yield from validate_optional_one_of(action, _ACTIONS, f"{path}[{index}]")
        yield from validate_unique(action, distinct_actions, f"{path}[{index}]")
    if {"Deny", "Warn"} <= distinct_actions:
        yield FieldError.invalid(path, list(actions), _BOTH)


BEHAVIOR = ResourceBehavior(strategy=ValidatingBindingStrategy())
