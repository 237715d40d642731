"""CEL expressions over the claims of a token and over the resulting user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sampan.api.go_compat import gotext
from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.cel.cost_budget import CostBudget
from sampan.machinery.cel.errors import CelError
from sampan.machinery.cel.escapes import add_escaped_keys

if TYPE_CHECKING:
    from sampan.machinery.cel import Environment, Program

_NOT_TEXTS = "expression must return a string or a list of strings"


class ValidationRule(NamedTuple):
    expression: Program
    message: str = ""
    """The error message if the rule is violated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimExpressions:
    """The CEL expressions of an issuer; None where a claim is named instead."""

    username: Program | None = None
    groups: Program | None = None
    uid: Program | None = None
    extra: Mapping[str, Program] = field(default_factory=dict)
    claim_rules: Sequence[ValidationRule] = ()
    user_rules: Sequence[ValidationRule] = ()

    @property
    def need_claims(self) -> bool:
        return bool(self.username or self.groups or self.uid or self.extra or self.claim_rules)


@cache
def claims_environment() -> Environment:
    """Return the environment of expressions over claims. The CEL engine is imported with the first expression."""
    from sampan.machinery.cel import Environment
    from sampan.machinery.cel.checker.types import ANY, STRING, map_of

    return Environment({"claims": map_of(STRING, ANY)})


@cache
def user_environment() -> Environment:
    """Return the environment of expressions over the user."""
    from sampan.machinery.cel import Environment
    from sampan.machinery.cel.checker.types import STRING, ObjectType, list_of, map_of

    texts = list_of(STRING)
    fields = {"username": STRING, "uid": STRING, "groups": texts, "extra": map_of(STRING, texts)}
    return Environment({"user": ObjectType("kubernetes.UserInfo", fields)})


def claims_value(claims: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claims as CEL values. All numbers are doubles, since JSON does not distinguish integers."""
    return {"claims": add_escaped_keys(gotext.with_float_numbers(dict(claims)))}


def username_of(expression: Program, values: Mapping[str, Any], budget: CostBudget) -> str:
    username = _text(expression, values, "username", budget)
    if not username:
        raise _error("empty username via CEL expression is not allowed")
    return username


def uid_of(expression: Program, values: Mapping[str, Any], budget: CostBudget) -> str:
    return _text(expression, values, "uid", budget)


def groups_of(expression: Program, values: Mapping[str, Any], budget: CostBudget) -> list[str]:
    try:
        return _texts(_evaluate(expression, values, budget))
    except CelError as error:
        raise _error(f"error evaluating group claim expression: {error}") from None


def extra_of(extra: Mapping[str, Program], values: Mapping[str, Any], budget: CostBudget) -> dict[str, tuple[str, ...]]:
    try:
        results = {key: _evaluate(expression, values, budget) for key, expression in extra.items()}
    except CelError as error:
        raise TokenError(str(error)) from None
    texts: dict[str, tuple[str, ...]] = {}
    for key, value in results.items():
        try:
            texts[key] = tuple(_texts(value))
        except CelError as error:
            raise _error(f"error evaluating extra claim expression: {extra[key].text}: {error}") from None
    return {key: strings for key, strings in texts.items() if strings}


def check_claims(rules: Sequence[ValidationRule], values: Mapping[str, Any], budget: CostBudget) -> None:
    _check(rules, values, "claim validation expression", budget)


def check_user(rules: Sequence[ValidationRule], user: UserInfo, budget: CostBudget) -> None:
    extra = {key: list(strings) for key, strings in user.extra.items()}
    user_fields = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    _check(rules, {"user": add_escaped_keys(user_fields)}, "user info validation rule", budget)


def _check(rules: Sequence[ValidationRule], values: Mapping[str, Any], subject: str, budget: CostBudget) -> None:
    """Raise `TokenError` for the first rule that is violated. All rules are evaluated first, so an evaluation error of
    any rule takes precedence."""
    try:
        results = [(_evaluate(rule.expression, values, budget), rule) for rule in rules]
        for holds, rule in results:
            if not isinstance(holds, bool):
                raise CelError("validation expression must return a boolean")
            if not holds:
                raise CelError(f"validation expression '{rule.expression.text}' failed: {rule.message}")
    except CelError as error:
        raise _error(f"error evaluating {subject}: {error}") from None


def _text(expression: Program, values: Mapping[str, Any], subject: str, budget: CostBudget) -> str:
    try:
        result = _evaluate(expression, values, budget)
    except CelError as error:
        raise _error(f"error evaluating {subject} claim expression: {error}") from None
    if not isinstance(result, str):
        raise _error(f"error evaluating {subject} claim expression: {subject} claim expression must return a string")
    return result


def _texts(value: Any) -> list[str]:
    """Return a string or list of strings as a list, without empty strings."""
    if value is None:
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise CelError(_NOT_TEXTS)
    return [text for text in texts if text]


def _evaluate(expression: Program, values: Mapping[str, Any], budget: CostBudget) -> Any:
    try:
        return budget.evaluate(expression, values)
    except CelError as error:
        raise CelError(f"expression '{expression.text}' resulted in error: {error}") from None


def _error(text: str) -> TokenError:
    return TokenError(f"oidc: {text}")


__all__ = [
    "ClaimExpressions",
    "ValidationRule",
    "check_claims",
    "check_user",
    "claims_environment",
    "claims_value",
    "extra_of",
]
__all__ += ["groups_of", "uid_of", "user_environment", "username_of"]
