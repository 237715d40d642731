"""Metrics of admission webhooks and policies, under the names of kube-apiserver.

The labels have the names of webhooks, policies and bindings, as far as `LabelNames` admits them. The counterparts are
`k8s.io/apiserver/pkg/admission/metrics` and `pkg/admission/plugin/policy/*/metrics`.
"""

from __future__ import annotations

from typing import Final, Literal

from sampan.machinery.cel.errors import CompileError, CostLimitExceeded
from sampan.machinery.telemetry.metrics import LabelNames, Metrics

ErrorType = Literal["calling_webhook_error", "apiserver_internal_error", "no_error"]
Action = Literal["allow", "deny", "audit", "warn"]
AdmissionType = Literal["admit", "validating", "validate"]
"""The phase of admission: kube-apiserver says `validating` for webhooks and `validate` for policies."""

_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_BUCKETS: Final = (*_BUCKETS, 10, 25)
_EXPRESSION_BUCKETS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_CONDITION: Final = ("name", "kind", "type", "operation")
_MAX_STATUS_CODE: Final = 600


class AdmissionMetrics:
    def __init__(self, *, metrics: Metrics) -> None:
        self._names = LabelNames()
        start = "apiserver_admission_"
        self._webhook_duration = metrics.histogram(
            f"{start}webhook_admission_duration_seconds",
            "Duration of calls of admission webhooks.",
            ("name", "type", "operation", "rejected"),
            _WEBHOOK_BUCKETS,
        )
        self._webhook_requests = metrics.counter(
            f"{start}webhook_request_total",
            "Requests to admission webhooks by the code of the result; codes above 600 count as 600.",
            ("name", "type", "operation", "code", "rejected"),
        )
        self._webhook_rejections = metrics.counter(
            f"{start}webhook_rejection_count",
            "Requests that an admission webhook has rejected, or that were rejected because it failed.",
            ("name", "type", "operation", "error_type", "rejection_code"),
        )
        self._webhook_fail_open = metrics.counter(
            f"{start}webhook_fail_open_count",
            "Requests that were admitted although an admission webhook failed.",
            ("name", "type"),
        )
        self._condition_errors = metrics.counter(
            f"{start}match_condition_evaluation_errors_total",
            "Match conditions of webhooks and policies that could not be evaluated.",
            _CONDITION,
        )
        self._condition_exclusions = metrics.counter(
            f"{start}match_condition_exclusions_total",
            "Requests that match conditions have excluded from a webhook or policy.",
            _CONDITION,
        )
        self._condition_duration = metrics.histogram(
            f"{start}match_condition_evaluation_seconds",
            "Duration of the evaluation of match conditions.",
            _CONDITION,
            _BUCKETS,
        )
        validation, mutation = ("policy", "policy_binding", "error_type"), "apiserver_mutating_admission_policy_"
        self._validations = metrics.counter(
            "apiserver_validating_admission_policy_check_total",
            "Validations of policies that failed, by binding and enforcement action.",
            (*validation, "enforcement_action"),
        )
        self._validation_duration = metrics.histogram(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "Duration of the expressions of such validations.",
            (*validation, "enforcement_action"),
            _EXPRESSION_BUCKETS,
        )
        self._mutations = metrics.counter(
            f"{mutation}check_total", "Mutations of policies by binding and error.", validation
        )
        self._mutation_duration = metrics.histogram(
            f"{mutation}check_duration_seconds",
            "Duration of the mutations of policies.",
            validation,
            _EXPRESSION_BUCKETS,
        )

    # -- webhooks ----------------------------------------------------------------------------------------------------

    def record_webhook_call(
        self, name: str, type: AdmissionType, operation: str, *, seconds: float, code: int, is_rejected: bool
    ) -> None:
        name, rejected = self._names.label(name), "true" if is_rejected else "false"
        self._webhook_requests.labels(name, type, operation, _code(code), rejected).inc()
        self._webhook_duration.labels(name, type, operation, rejected).observe(seconds)

    def record_webhook_rejection(
        self, name: str, type: AdmissionType, operation: str, *, error_type: ErrorType, code: int
    ) -> None:
        self._webhook_rejections.labels(self._names.label(name), type, operation, error_type, _code(code)).inc()

    def record_webhook_fail_open(self, name: str, type: AdmissionType) -> None:
        self._webhook_fail_open.labels(self._names.label(name), type).inc()

    # -- match conditions --------------------------------------------------------------------------------------------

    def record_match_conditions(
        self,
        name: str,
        kind: Literal["webhook", "policy"],
        type: AdmissionType,
        operation: str,
        *,
        seconds: float,
        is_match: bool,
        error_count: int,
    ) -> None:
        labels = (self._names.label(name), kind, type, operation)
        self._condition_duration.labels(*labels).observe(seconds)
        if error_count:
            self._condition_errors.labels(*labels).inc(error_count)
        if not is_match:
            self._condition_exclusions.labels(*labels).inc()

    # -- policies ----------------------------------------------------------------------------------------------------

    def record_validation(
        self, policy: str, binding: str, action: Action, *, error: Exception | None, seconds: float
    ) -> None:
        labels = (self._names.label(policy), self._names.label(binding), error_type_of(error), action)
        self._validations.labels(*labels).inc()
        self._validation_duration.labels(*labels).observe(seconds)

    def record_mutation(self, policy: str, binding: str, *, error: Exception | None, seconds: float) -> None:
        labels = (self._names.label(policy), self._names.label(binding), error_type_of(error))
        self._mutations.labels(*labels).inc()
        self._mutation_duration.labels(*labels).observe(seconds)


def error_type_of(error: Exception | None) -> str:
    """Return the value of the label `error_type` for the error of a CEL expression; None means that there was no
    error."""
    if error is None:
        return "no_error"
    if isinstance(error, CompileError):
        return "compile_error"
    if isinstance(error, CostLimitExceeded):
        return "out_of_budget"
    return "invalid_error"


def _code(code: int) -> str:
    return str(min(code, _MAX_STATUS_CODE))
