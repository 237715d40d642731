"""The webhook authorizer, which caches decisions, and its match conditions: CEL expressions over the access review."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sampan.api import limits
from sampan.api.selectors import fields, labels
from sampan.apiserver.authz.authorizer import Attributes, AuthzDecision, AuthzResult, ResolvedRules
from sampan.apiserver.request.call import UserInfo
from sampan.apiserver.webhooks.remote_webhook import RemoteReviewer, RemoteWebhookFailed, RetryPolicy
from sampan.host.bounded_cache import ExpiringCache
from sampan.host.clock import Clock
from sampan.host.worker_thread import WorkerThread
from sampan.machinery.cel.cost_budget import UNLIMITED_COST, BudgetExceeded, CostBudget
from sampan.machinery.cel.errors import CelError
from sampan.machinery.cel.escapes import add_escaped_keys
from sampan.machinery.client.access import Access

if TYPE_CHECKING:
    from sampan.machinery.cel import Environment, Program

_TEXTS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")


class ConditionsFailed(ValueError):
    """No condition is false, but some could not be evaluated."""


@cache
def environment() -> Environment:
    """Return the environment with `request`, the spec of a SubjectAccessReview. The CEL engine is imported with the
    first condition."""
    from sampan.machinery.cel import Environment
    from sampan.machinery.cel.checker.types import STRING, ObjectType, list_of, map_of

    requirement = {"key": STRING, "operator": STRING, "values": list_of(STRING)}
    selector = {
        "rawSelector": STRING,
        "requirements": list_of(ObjectType("kubernetes.SelectorRequirement", requirement)),
    }
    resource = {
        **dict.fromkeys(_TEXTS, STRING),
        "fieldSelector": ObjectType("kubernetes.FieldSelectorAttributes", selector),
        "labelSelector": ObjectType("kubernetes.LabelSelectorAttributes", selector),
    }
    spec = {
        "resourceAttributes": ObjectType("kubernetes.ResourceAttributes", resource),
        "nonResourceAttributes": ObjectType("kubernetes.NonResourceAttributes", {"path": STRING, "verb": STRING}),
        "user": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
        "uid": STRING,
    }
    return Environment({"request": ObjectType("kubernetes.SubjectAccessReviewSpec", spec)})


def compile_condition(text: str) -> Program:
    """Return the compiled condition. Raise `CelError` if it is invalid or not boolean."""
    try:
        program = environment().compile(text)
    except CelError as error:
        raise CelError(f"compilation failed: {error}") from None
    if program.result_type.kind != "bool":
        raise CelError(f"must evaluate to bool but got {program.result_type}")
    return program


def all_match(conditions: Sequence[Program], spec: Mapping[str, Any], budget: CostBudget) -> bool:
    """Whether all conditions match. A false condition takes precedence over one that fails, which raises
    `ConditionsFailed`. Raise `BudgetExceeded` if the evaluation costs more than the budget."""
    values, failures = {"request": _value(spec)}, []
    for condition in conditions:
        try:
            if not budget.evaluate(condition, values):
                return False
        except CelError as error:
            failures.append(f"cel evaluation error: expression '{condition.text}' resulted in error: {error}")
    if failures:
        raise ConditionsFailed(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
    return True


def _value(spec: Mapping[str, Any]) -> Any:
    """Return the review as a CEL value, with empty strings for missing fields."""
    value = {"user": "", "groups": [], "uid": "", "extra": {}, **spec}
    if "resourceAttributes" in spec:
        value["resourceAttributes"] = {**dict.fromkeys(_TEXTS, ""), **spec["resourceAttributes"]}
    return add_escaped_keys(value)


_CACHE_SIZE = 8192
_MAX_CACHED_LENGTH = 10_000
"""The length of the client-controlled attributes from which on a decision is not cached."""
Version = Literal["v1", "v1beta1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    access: Access = field(repr=False)
    name: str = ""
    version: Version = "v1"
    allowed_s: float = 300
    """How long an allowed decision is cached; 0: not at all."""
    refused_s: float = 30
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    on_failure: AuthzDecision = AuthzDecision.NO_OPINION
    conditions: Sequence[Program] = ()
    """The match conditions. The webhook is only called if all of them are met."""


class WebhookAuthorizer:
    def __init__(self, *, settings: WebhookSettings, clock: Clock) -> None:
        self.name = settings.name or "webhook"
        self._settings = settings
        self._service = RemoteReviewer(settings.access, retry_policy=settings.retry_policy)
        self._worker = WorkerThread("sampan-match-conditions")
        self._kept: ExpiringCache[bytes, AuthzResult] = ExpiringCache(clock=clock, max_entries=_CACHE_SIZE)

    def authorize(self, attributes: Attributes) -> AuthzResult | Awaitable[AuthzResult]:
        if self._settings.conditions:
            try:
                result = self._skip_result(attributes, CostBudget(limits.INLINE_CEL_COST))
            except BudgetExceeded:
                return self._authorize_in_worker(attributes)
            if result is not None:
                return result
        return self._review(attributes)

    async def _authorize_in_worker(self, attributes: Attributes) -> AuthzResult:
        """Return the decision; evaluate the match conditions in a worker thread, because they would block the event
        loop."""
        result = await self._worker.run(self._skip_result, attributes, UNLIMITED_COST)
        if result is not None:
            return result
        reviewed = self._review(attributes)
        return reviewed if isinstance(reviewed, AuthzResult) else await reviewed

    def _review(self, attributes: Attributes) -> AuthzResult | Awaitable[AuthzResult]:
        spec = spec_of(attributes, self._settings.version)
        key = msgspec.json.encode(spec)
        cached = self._kept.get(key)
        return cached if cached is not None else self._call_webhook(attributes, spec, key)

    def _skip_result(self, attributes: Attributes, budget: CostBudget) -> AuthzResult | None:
        """Return the decision for a request that does not meet the match conditions; None if it does."""
        try:
            is_match = all_match(self._settings.conditions, spec_of(attributes, "v1"), budget)
        except ConditionsFailed as error:
            return AuthzResult(self._settings.on_failure, error=str(error))
        return None if is_match else AuthzResult(AuthzDecision.NO_OPINION)

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        return ResolvedRules((), ("webhook authorizer does not support user rule resolution",), is_complete=False)

    async def close(self) -> None:
        await self._service.close()

    async def _call_webhook(self, attributes: Attributes, spec: dict[str, Any], key: bytes) -> AuthzResult:
        settings = self._settings
        review = {
            "kind": "SubjectAccessReview",
            "apiVersion": f"authorization.k8s.io/{settings.version}",
            "metadata": {},
            "spec": spec,
        }
        try:
            result = decision_of(await self._service.status(review))
        except RemoteWebhookFailed as error:
            return AuthzResult(settings.on_failure, error=f"webhook authorizer: {error}")
        if _length(attributes) < _MAX_CACHED_LENGTH:
            is_allowed = result.decision is AuthzDecision.ALLOW
            self._kept.keep(key, result, settings.allowed_s if is_allowed else settings.refused_s)
        return result


def decision_of(status: dict[str, Any]) -> AuthzResult:
    reason = str(status.get("reason") or "")
    if status.get("denied"):
        both = "webhook subject access review returned both allow and deny response" if status.get("allowed") else ""
        return AuthzResult(AuthzDecision.DENY, reason, both)
    return AuthzResult(AuthzDecision.ALLOW if status.get("allowed") else AuthzDecision.NO_OPINION, reason)


def spec_of(attributes: Attributes, version: Version) -> dict[str, Any]:
    """Return the spec of the SubjectAccessReview."""
    user = attributes.user
    who = {
        "user": user.name,
        "groups" if version == "v1" else "group": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
        "uid": user.uid,
    }
    if not attributes.is_resource:
        return {
            "nonResourceAttributes": _without_empty({"path": attributes.path, "verb": attributes.verb}),
            **_without_empty(who),
        }
    attributes_fields = {
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.group,
        "version": attributes.version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
        "fieldSelector": _requirements(attributes.field_selector),
        "labelSelector": _label_requirements(attributes.label_selector),
    }
    return {"resourceAttributes": _without_empty(attributes_fields), **_without_empty(who)}


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def _requirements(selector: str) -> dict[str, Any]:
    """Return the requirements of a field selector; an invalid selector has none."""
    try:
        terms = fields.parse(selector).terms if selector else ()
    except fields.FieldSelectorError:
        return {}
    requirements = [
        {"key": term.field, "operator": "NotIn" if term.is_negated else "In", "values": [term.value]} for term in terms
    ]
    return {"requirements": requirements} if requirements else {}


def _label_requirements(selector: str) -> dict[str, Any]:
    try:
        terms = labels.parse(selector).requirements if selector else ()
    except labels.SelectorError:
        return {}
    requirements = [
        _without_empty({"key": term.key, "operator": _OPERATORS.get(term.operator), "values": sorted(term.values)})
        for term in terms
        if term.operator in _OPERATORS
    ]
    return {"requirements": requirements} if requirements else {}


_OPERATORS = {
    **dict.fromkeys(("=", "==", "in"), "In"),
    **dict.fromkeys(("!=", "notin"), "NotIn"),
    "exists": "Exists",
    "!": "DoesNotExist",
}


def _length(attributes: Attributes) -> int:
    words = (attributes.namespace, attributes.verb, attributes.group, attributes.version)
    return sum(map(len, (*words, attributes.resource, attributes.subresource, attributes.name, attributes.path)))
