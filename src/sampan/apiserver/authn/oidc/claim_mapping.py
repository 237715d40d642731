"""The mapping of verified claims to a user, according to the settings of the issuer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.go_compat import gotext
from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authn.oidc import expressions
from sampan.apiserver.authn.oidc.issuers import JwtIssuer
from sampan.apiserver.authz.rbac.policy_rules import quote_list
from sampan.apiserver.request.call import UserInfo, add_authenticated_group
from sampan.machinery.cel.cost_budget import CostBudget

_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_EARLY_S = 300
"""The tolerated clock skew for `nbf`."""
Claims = Mapping[str, Any]


def check(claims: Claims, issuer: JwtIssuer, now: float) -> None:
    """Raise `TokenError` if the token is for another audience, expired or not valid yet."""
    audiences = claims.get("aud")
    actual = [audiences] if isinstance(audiences, str) else audiences if isinstance(audiences, list) else []
    if not any(audience in issuer.audiences for audience in actual):
        raise _error(
            f"verify token: oidc: expected audience in {quote_list(sorted(issuer.audiences))} got {quote_list(actual)}"
        )
    if now > _number(claims, "exp"):
        raise _error("verify token: oidc: token is expired")
    if now + _EARLY_S < _number(claims, "nbf"):
        raise _error("verify token: oidc: current time is before the nbf (not before) time")


def user_of(claims: Claims, issuer: JwtIssuer, budget: CostBudget) -> UserInfo:
    """Return the user. Raise `TokenError` if claims are missing or violate a validation rule, and `BudgetExceeded` if
    the expressions cost more than the budget."""
    programs = issuer.expressions
    values = expressions.claims_value(claims) if programs.need_claims else {}
    name = (
        expressions.username_of(programs.username, values, budget) if programs.username else _username(claims, issuer)
    )
    groups = _map_groups(claims, issuer, values, budget)
    uid = expressions.uid_of(programs.uid, values, budget) if programs.uid else _uid(claims, issuer)
    extra = {**_credential(claims), **expressions.extra_of(programs.extra, values, budget)}
    _check_required(claims, issuer.required)
    expressions.check_claims(programs.claim_rules, values, budget)
    if programs.user_rules:
        expressions.check_user(programs.user_rules, UserInfo(name, uid, tuple(groups), extra), budget)
    return UserInfo(name, uid, add_authenticated_group(groups), extra)


def _username(claims: Claims, issuer: JwtIssuer) -> str:
    name = issuer.username_prefix + _text(claims, issuer.username_claim, "username claims")
    if issuer.username_claim == "email" and claims.get("email_verified", True) is not True:
        raise _error("email not verified")
    return name


def _uid(claims: Claims, issuer: JwtIssuer) -> str:
    return _text(claims, issuer.uid_claim, "uid claim") if issuer.uid_claim else ""


def _map_groups(claims: Claims, issuer: JwtIssuer, values: Claims, budget: CostBudget) -> list[str]:
    programs = issuer.expressions
    if programs.groups is not None:
        return expressions.groups_of(programs.groups, values, budget)
    return [issuer.groups_prefix + group for group in _groups(claims, issuer.groups_claim)]


def _credential(claims: Claims) -> dict[str, tuple[str, ...]]:
    jti = claims.get("jti")
    return {_CREDENTIAL: (f"JTI={jti}",)} if isinstance(jti, str) and jti else {}


def _check_required(claims: Claims, required: Mapping[str, str]) -> None:
    for claim, value in required.items():
        if claim not in claims:
            raise _error(f"required claim {claim} not present in ID token")
        actual = claims[claim]
        if actual != value:
            raise _error(f"required claim {claim} value does not match. Got = {actual}, want = {value}")


def _groups(claims: Claims, claim: str) -> list[str]:
    value = claims.get(claim) if claim else None
    if value is None:
        return []
    groups = [value] if isinstance(value, str) else value
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise _error(f"parse groups claim {gotext.quote(claim)}: neither a string nor a list of strings")
    return groups


def _text(claims: Claims, claim: str, subject: str) -> str:
    if claim not in claims:
        raise _error(f"parse {subject} {gotext.quote(claim)}: claim not present")
    value = claims[claim]
    if not isinstance(value, str):
        raise _error(f"parse {subject} {gotext.quote(claim)}: not a string")
    return value


def _number(claims: Claims, claim: str) -> float:
    value = claims.get(claim, 0)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _error(text: str) -> TokenError:
    return TokenError(f"oidc: {text}")
