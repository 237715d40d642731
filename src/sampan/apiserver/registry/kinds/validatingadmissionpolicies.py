"""ValidatingAdmissionPolicy: CEL expressions that validate requests on admission."""

from collections.abc import Iterable
from functools import partial

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.admissionregistration_v1 import (
    AuditAnnotation,
    TypeChecking,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
    ValidatingAdmissionPolicyStatus,
    Validation,
)
from sampan.apiserver.registry.admission_configs.policies import (
    PolicyStrategy,
    policy_columns,
    validate_conditions_and_variables,
    validate_expression,
    validate_failure_policy_and_match,
)
from sampan.apiserver.registry.admission_configs.reserved_names import validate_new_name
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_conditions,
    validate_optional_one_of,
    validate_qualified_name,
    validate_required,
    validate_unique,
)
from sampan.machinery.cel.admission import PolicyExpressionCompiler, validating_compiler

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MAX_AUDIT_ANNOTATIONS, _MAX_VALUE_EXPRESSION_BYTES = 20, 5 * 1024
_MISSING_VALIDATIONS_ERROR = "validations or auditAnnotations must contain at least one item"


class ValidatingAdmissionPolicyStrategy(PolicyStrategy):
    columns = policy_columns(
        Column(
            "Validations",
            lambda policy, now: len(policy.spec.validations),
            type="integer",
            description="Validations indicates the number of validation rules defined in this configuration",
        )
    )

    def prepare_for_create(self, ctx: Context, obj: ValidatingAdmissionPolicy) -> None:
        obj.status = ValidatingAdmissionPolicyStatus()

    def validate_create(self, ctx: Context, obj: ValidatingAdmissionPolicy) -> Iterable[FieldError]:
        yield from _validate_policy(obj, None)
        yield from validate_new_name(ctx, obj)

    def prepare_for_update(self, ctx: Context, obj: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy) -> None:
        obj.status = old.status

    def validate_update(
        self, ctx: Context, obj: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy
    ) -> Iterable[FieldError]:
        return _validate_policy(obj, old.spec)


class PolicyStatusStrategy(StatusStrategy):
    keeps_metadata = True

    def validate_update(
        self, ctx: Context, obj: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy
    ) -> Iterable[FieldError]:
        if obj.status.typeChecking is not None:
            yield from _validate_expression_warning(obj.status.typeChecking, "status.typeChecking.expressionWarnings")
        yield from validate_conditions(obj.status.conditions, "status.conditions")


def _validate_policy(policy: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicySpec | None) -> FieldErrors:
    spec = policy.spec
    compiler = validating_compiler(has_params=spec.paramKind is not None, has_variables=bool(spec.variables))
    yield from validate_failure_policy_and_match(spec)
    yield from validate_conditions_and_variables(spec, old, compiler)
    if not spec.validations and not spec.auditAnnotations:
        yield FieldError.required("spec.validations", _MISSING_VALIDATIONS_ERROR)
        yield FieldError.required("spec.auditAnnotations", _MISSING_VALIDATIONS_ERROR)
        return
    for index, validation in enumerate(spec.validations):
        yield from _validate_validation(validation, f"spec.validations[{index}]", compiler)
    if len(spec.auditAnnotations) > _MAX_AUDIT_ANNOTATIONS:
        text = f"must not have more than {_MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        yield FieldError.invalid("spec.auditAnnotations", encode_error_value(spec.auditAnnotations), text)
    keys: set[str] = set()
    for index, annotation in enumerate(spec.auditAnnotations):
        path = f"spec.auditAnnotations[{index}]"
        yield from _validate_audit_annotation(annotation, policy.metadata.name, path, compiler)
        yield from validate_unique(annotation.key, keys, f"{path}.key")


def _validate_validation(validation: Validation, path: str, compiler: PolicyExpressionCompiler) -> FieldErrors:
    missing = "expression is not specified"
    compile_bool = partial(compiler.expression, kinds=("bool",))
    yield from validate_expression(compile_bool, validation.expression, f"{path}.expression", missing=missing)
    if validation.messageExpression and not validation.messageExpression.strip():
        text = "must be non-empty if specified"
        yield FieldError.invalid(f"{path}.messageExpression", validation.messageExpression, text)
    elif validation.messageExpression:
        message_at = f"{path}.messageExpression"
        yield from validate_expression(compiler.message, validation.messageExpression, message_at)
    message = validation.message.strip()
    if validation.message and not message:
        yield FieldError.invalid(f"{path}.message", validation.message, "must be non-empty if specified")
    elif "\n" in message or "\r" in message:
        yield FieldError.invalid(f"{path}.message", validation.message, "must not contain line breaks")
    yield from validate_optional_one_of(validation.reason, _REASONS, f"{path}.reason")


def _validate_audit_annotation(
    annotation: AuditAnnotation, policy: str, path: str, compiler: PolicyExpressionCompiler
) -> FieldErrors:
    if policy:
        yield from validate_qualified_name(f"{policy}/{annotation.key}", f"{path}.key")
    else:
        yield FieldError.invalid(f"{path}.key", annotation.key, "requires metadata.name be non-empty")
    expression = annotation.valueExpression.strip()
    if not expression:
        yield FieldError.required(f"{path}.valueExpression", "valueExpression is not specified")
    elif len(expression.encode()) > _MAX_VALUE_EXPRESSION_BYTES:
        yield FieldError.required(
            f"{path}.valueExpression", f"must not exceed {_MAX_VALUE_EXPRESSION_BYTES} bytes in length"
        )
    else:
        value_at = f"{path}.valueExpression"
        compile_text = partial(compiler.expression, kinds=("string", "null"))
        yield from validate_expression(compile_text, annotation.valueExpression, value_at)


def _validate_expression_warning(checked: TypeChecking, path: str) -> FieldErrors:
    for index, warning in enumerate(checked.expressionWarnings):
        yield from validate_required(warning.warning, f"{path}[{index}].warning")
        yield from validate_required(warning.fieldRef.strip(), f"{path}[{index}].fieldRef")


_strategy = ValidatingAdmissionPolicyStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": PolicyStatusStrategy(_strategy)})
