"""CEL expressions about admission requests: the variables that they may use, and their evaluation.

The variable `authorizer` makes authorization checks, which may have to wait for another server. An evaluation that
needs a decision is therefore interrupted, and repeated once the decision is known. The counterpart is
`k8s.io/apiserver/pkg/admission/plugin/cel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sampan.api import limits
from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.authz import Attributes, AuthzDecision
from sampan.apiserver.request.call import service_account_user
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.cel.admission import LazyVariables
from sampan.machinery.cel.errors import CelError, CostLimitExceeded

if TYPE_CHECKING:
    from sampan.machinery.cel import Program
    from sampan.machinery.cel.library.authorizer import AccessAttributes, AuthorizerValue, DecisionValue

_MAX_AUTHORIZATION_CHECKS = 32
"""The number of different authorization checks in one request, so that the repetitions are bounded."""


@dataclass(frozen=True, slots=True)
class ConditionFailure:
    """A condition that could not be evaluated."""

    text: str
    error: str

    def __str__(self) -> str:
        return self.error


def join_failures(failures: Sequence[ConditionFailure]) -> str:
    """Return the text of all failures, in brackets if there are several different ones."""
    texts = [*dict.fromkeys(map(str, failures))]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


WORKER = WorkerThread("sampan-admission-expressions")
"""Compiles and evaluates expressions that would block the event loop for too long."""


def _run(program: Program, variables: Mapping[str, Any], cost_limit: int) -> tuple[Any, int]:
    lazy = variables.get("variables")
    if isinstance(lazy, LazyVariables):
        lazy.cost_limit = cost_limit
    result = program.run(variables, cost_limit)
    return result.value, result.cost


class _UndecidedQuestion(Exception):
    """An evaluation needs an authorization decision that is not known yet."""

    def __init__(self, question: AccessAttributes) -> None:
        super().__init__()
        self.question = question


class RequestExpressions:
    """Evaluates the expressions of webhooks and policies about one request, with its authorization decisions."""

    def __init__(self, attributes: AdmissionAttributes) -> None:
        self._attributes = attributes
        self._decisions: dict[AccessAttributes, DecisionValue] = {}

    def authorizer_variables(self) -> dict[str, Any]:
        """Return the variables `authorizer` and `authorizer.requestResource`."""
        from sampan.machinery.cel.library.authorizer import AccessAttributes, AuthorizerValue, ResourceCheckValue

        attributes = self._attributes
        request = AccessAttributes(
            group=attributes.resource.group,
            resource=attributes.resource.plural,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        authorizer: AuthorizerValue = AuthorizerValue(self._decide)
        return {"authorizer": authorizer, "authorizer.requestResource": ResourceCheckValue(self._decide, request)}

    async def evaluate(
        self, program: Program, variables: Mapping[str, Any], cost_limit: int = limits.CEL_COST
    ) -> tuple[Any, int]:
        """Return the value of an expression and its cost. Raise CelError.

        An expression that costs more than a little is evaluated in a worker thread.
        """
        for _ in range(_MAX_AUTHORIZATION_CHECKS):
            try:
                return _run(program, variables, min(cost_limit, limits.INLINE_CEL_COST))
            except CostLimitExceeded:
                pass
            except _UndecidedQuestion as undecided:
                self._decisions[undecided.question] = await self._authorize(undecided.question)
                continue
            try:
                return await WORKER.run(_run, program, variables, cost_limit)
            except _UndecidedQuestion as undecided:
                self._decisions[undecided.question] = await self._authorize(undecided.question)
        raise CostLimitExceeded

    def _decide(self, question: AccessAttributes) -> DecisionValue:
        decision = self._decisions.get(question)
        if decision is None:
            raise _UndecidedQuestion(question)
        return decision

    async def _authorize(self, question: AccessAttributes) -> DecisionValue:
        from sampan.machinery.cel.library.authorizer import DecisionValue

        security = self._attributes.services.security
        if security is None:
            return DecisionValue(is_allowed=True)
        user = self._attributes.user
        if question.service_account is not None:
            user = service_account_user(*question.service_account)
        if question.path is not None:
            subject = Attributes(user, question.verb, question.path, is_resource=False)
        else:
            subject = Attributes(
                user,
                question.verb,
                "",
                question.group,
                "*",
                question.resource,
                question.subresource,
                question.namespace,
                question.name,
                question.field_selector,
                True,
                question.label_selector,
            )
        try:
            result = await security.authorizer.authorize(subject)
        except errors.ApiError as error:
            return DecisionValue(is_allowed=False, error=error.message)
        is_allowed = result.decision is AuthzDecision.ALLOW
        return DecisionValue(is_allowed=is_allowed, reason=result.reason, error=result.error)


async def conditions_match(
    expressions: RequestExpressions,
    conditions: Sequence[tuple[str, Program | CelError]],
    variables: Callable[[], Mapping[str, Any]],
) -> tuple[bool, list[ConditionFailure]]:
    """Evaluate named match conditions. Return whether none is false, and the conditions that failed; a false condition
    takes precedence over failures."""
    if not conditions:
        return True, []
    values, failures = variables(), []
    for name, program in conditions:
        try:
            if isinstance(program, CelError):
                raise program
            value, _ = await expressions.evaluate(program, values)
        except CelError as error:
            text = str(error)
            if not isinstance(program, CelError):
                text = f"expression '{program.text}' resulted in error: {text}"
            failures.append(ConditionFailure(name, text))
            continue
        if value is not True:
            return False, []
    return True, failures
