"""ValidatingAdmissionPolicy: expressions that must be true for a request to be admitted."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sampan.api import limits
from sampan.api.resources.resource import Resource
from sampan.api.types.admissionregistration_v1 import ValidatingAdmissionPolicy, Validation
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.expressions import join_failures
from sampan.apiserver.admission.framework.metrics import Action, AdmissionMetrics
from sampan.apiserver.admission.framework.predicates import is_exempt, is_review
from sampan.apiserver.admission.framework.static_manifests import StaticManifests
from sampan.apiserver.admission.policies.definitions import (
    BoundPolicy,
    CompiledBinding,
    PolicyDefinitions,
    compile_or_error,
)
from sampan.apiserver.admission.policies.evaluation import (
    ParamKindError,
    ParamsError,
    PolicyEvaluation,
    PolicyRequest,
    params_of,
    require_param_kind,
)
from sampan.machinery import errors
from sampan.machinery.cel.admission import compile_condition, policy_environment, validating_compiler
from sampan.machinery.cel.errors import CelError

if TYPE_CHECKING:
    from sampan.machinery.cel import Program

log = logging.getLogger(__name__)

_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_MAX_MESSAGE_BYTES = 5 * 1024
_ACTIONS: Final[Mapping[str, Action]] = {"Deny": "deny", "Audit": "audit", "Warn": "warn"}
"""The labels of validation actions in metrics."""
_FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledValidatingPolicy:
    variables: Mapping[str, Program | CelError]
    conditions: Sequence[tuple[str, Program | CelError]]
    validations: Sequence[tuple[Validation, Program | CelError, Program | CelError | None]]
    """Each validation with its expression and its message expression."""
    annotations: Sequence[tuple[str, Program | CelError]]


def compile_policy(policy: ValidatingAdmissionPolicy) -> CompiledValidatingPolicy:
    spec = policy.spec
    has_params = spec.paramKind is not None
    compiler = validating_compiler(has_params=has_params, has_variables=bool(spec.variables))
    conditions = policy_environment(has_params=has_params)
    return CompiledValidatingPolicy(
        variables={
            row.name: compile_or_error(partial(compiler.variable, row.name, row.expression)) for row in spec.variables
        },
        conditions=[
            (row.name, compile_or_error(partial(compile_condition, conditions, row.expression)))
            for row in spec.matchConditions
        ],
        validations=[
            (
                row,
                compile_or_error(partial(compiler.expression, row.expression, ("bool",))),
                compile_or_error(partial(compiler.message, row.messageExpression)) if row.messageExpression else None,
            )
            for row in spec.validations
        ],
        annotations=[
            (row.key, compile_or_error(partial(compiler.expression, row.valueExpression, ("string", "null"))))
            for row in spec.auditAnnotations
        ],
    )


@dataclass(frozen=True, slots=True)
class PolicyViolation:
    """A validation that failed, or could not be evaluated."""

    message: str
    reason: str = "Invalid"
    index: int = 0
    error: CelError | None = None
    """The error of an expression that could not be evaluated."""
    seconds: float = 0
    """The duration of the evaluation."""


class ValidatingAdmissionPolicyPlugin:
    name = "ValidatingAdmissionPolicy"

    def __init__(self, *, metrics: AdmissionMetrics, manifests: StaticManifests | None = None) -> None:
        self._metrics = metrics
        self._definitions = PolicyDefinitions("ValidatingAdmissionPolicy", compile_policy, manifests)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return self._definitions.has_manifests if is_exempt(resource) else not is_review(resource)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        policies = await self._definitions.policies(attributes)
        if not policies:
            return
        request = PolicyRequest(attributes, type="validate", metrics=self._metrics)
        denials = _ValidationActions(attributes, self._metrics)
        for policy in policies:
            await _validate(policy, request, denials)
        denials.finish()


class _ValidationActions:
    """Carries out the validation actions of bindings: it collects denials, and issues warnings and annotations."""

    def __init__(self, attributes: AdmissionAttributes, metrics: AdmissionMetrics) -> None:
        self._attributes, self._metrics = attributes, metrics
        self._first: errors.ApiError | None = None
        self._audited: list[dict[str, Any]] = []

    def add(self, policy: str, binding: Any, violation: PolicyViolation) -> None:
        name, actions = binding.metadata.name, binding.spec.validationActions
        for action in ("Deny", "Audit", "Warn"):
            if action in actions:
                self._record(policy, name, violation, _ACTIONS[action])
        if "Deny" in actions:
            self.deny(policy, name, violation)
        if "Warn" in actions:
            start = f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}'"
            self._attributes.warn(f"{start}: {violation.message}")
        if "Audit" in actions and len(self._audited) < limits.AUDITED_VALIDATION_FAILURES:
            self._audited.append(
                {
                    "message": violation.message,
                    "policy": policy,
                    "binding": name,
                    "expressionIndex": violation.index,
                    "validationActions": list(actions),
                }
            )

    def ignore(self, policy: str, binding: Any, violation: PolicyViolation) -> None:
        """Record a validation that could not be evaluated, whose policy ignores failures."""
        self._record(policy, binding.metadata.name, violation, "allow")

    def _record(self, policy: str, binding: str, violation: PolicyViolation, action: Action) -> None:
        self._metrics.record_validation(policy, binding, action, error=violation.error, seconds=violation.seconds)

    def deny(self, policy: str, binding: str, violation: PolicyViolation) -> None:
        """Reject the request. `binding` is empty if the whole policy is invalid."""
        if self._first is None:
            title = f"'{policy}' with binding '{binding}'" if binding else f"'{policy}'"
            text = f"ValidatingAdmissionPolicy {title} denied request: {violation.message}"
            error = self._attributes.forbidden(text, causes=[{"message": text}])
            error.status |= {"reason": violation.reason, "code": _CODES.get(violation.reason, 422)}
            self._first = errors.from_status(error.status)

    def finish(self) -> None:
        """Write the audit annotation about all failures, and raise the first denial."""
        if self._audited:
            self._attributes.annotate(_FAILURE_ANNOTATION, msgspec.json.encode(self._audited).decode())
        if self._first is not None:
            raise self._first


async def _validate(
    bound: BoundPolicy[CompiledValidatingPolicy], request: PolicyRequest, denials: _ValidationActions
) -> None:
    attributes = request.attributes
    resource = await bound.matcher.match(attributes)
    if resource is None:
        return
    try:
        require_param_kind(bound.policy.spec.paramKind, attributes)
    except ParamKindError as error:
        if bound.policy.spec.failurePolicy != "Ignore":
            violation = PolicyViolation(f"failed to configure policy: {error}")
            denials.deny(bound.policy.metadata.name, "", violation)
        return
    variables: dict[str, Any] | None = None
    for binding in bound.bindings:
        if binding.matcher is not None and await binding.matcher.match(attributes) is None:
            continue
        if variables is None:
            variables = await request.variables(resource)
        await _validate_binding(bound, binding, request, variables, denials)


async def _validate_binding(
    bound: BoundPolicy[CompiledValidatingPolicy],
    compiled: CompiledBinding,
    request: PolicyRequest,
    variables: Mapping[str, Any],
    denials: _ValidationActions,
) -> None:
    policy, binding = bound.policy, compiled.binding
    fails = policy.spec.failurePolicy != "Ignore"
    try:
        parameters = await params_of(policy.spec.paramKind, binding.spec.paramRef, request.attributes)
    except ParamsError as error:
        if fails:
            violation = PolicyViolation(f"failed to configure binding: {error}")
            denials.deny(policy.metadata.name, binding.metadata.name, violation)
        return
    for params in parameters or ():
        evaluation = PolicyEvaluation(request, variables, params=params, variables=bound.compiled.variables)
        for violation in await _violations(policy.metadata.name, bound.compiled, evaluation):
            is_ignored = violation.error is not None and not fails
            act = denials.ignore if is_ignored else denials.add
            act(policy.metadata.name, binding, violation)
        await _annotate(bound, evaluation, request.attributes)


async def _violations(
    policy: str, compiled: CompiledValidatingPolicy, evaluation: PolicyEvaluation
) -> list[PolicyViolation]:
    """Return the validations that failed, and those that could not be evaluated, which have an error."""
    is_match, failures = await evaluation.conditions_match(policy, compiled.conditions)
    if not is_match:
        return []
    if failures:
        text = join_failures(failures)
        return [PolicyViolation(text, error=CelError(text))]
    violations = []
    for index, (validation, program, message) in enumerate(compiled.validations):
        reason, start = validation.reason or "Invalid", time.perf_counter()
        try:
            value = await evaluation.evaluate(program)
        except CelError as error:
            text = f"expression '{validation.expression}' resulted in error: {error}"
            violations.append(PolicyViolation(text, "Invalid", index, error, time.perf_counter() - start))
            continue
        if value is not True:
            seconds, text = time.perf_counter() - start, await _message(validation, message, evaluation)
            violations.append(PolicyViolation(text, reason, index, None, seconds))
    return violations


async def _message(validation: Validation, program: Program | CelError | None, evaluation: PolicyEvaluation) -> str:
    """Return the message of a failed validation: the computed one if it is usable, or else the fixed one."""
    if program is not None:
        try:
            text = await evaluation.evaluate(program)
        except CelError as error:
            log.debug("the message expression %r failed: %s", validation.messageExpression, error)
        else:
            if isinstance(text, str) and _is_usable(text):
                return text.strip()
    return validation.message.strip() or f"failed expression: {validation.expression.strip()}"


def _is_usable(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_BYTES


async def _annotate(
    bound: BoundPolicy[CompiledValidatingPolicy], evaluation: PolicyEvaluation, attributes: AdmissionAttributes
) -> None:
    for key, program in bound.compiled.annotations:
        try:
            value = await evaluation.evaluate(program)
        except CelError as error:
            log.debug("the audit annotation %s of policy %s failed: %s", key, bound.policy.metadata.name, error)
            continue
        if isinstance(value, str) and value:
            attributes.annotate(f"{bound.policy.metadata.name}/{key}", value[:_MAX_MESSAGE_BYTES])
