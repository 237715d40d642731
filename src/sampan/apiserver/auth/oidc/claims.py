"""The mapping of verified claims to a user, according to the settings of the issuer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api import gotext
from sampan.apiserver.auth.chain import TokenFault
from sampan.apiserver.auth.groups import known_groups
from sampan.apiserver.auth.oidc import expressions
from sampan.apiserver.auth.oidc.issuers import JwtIssuer
from sampan.apiserver.authz.rbac.covers import quoted
from sampan.apiserver.call import User

_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_EARLY_S = 300
"""The tolerated clock skew for `nbf`."""
Claims = Mapping[str, Any]


def check(claims: Claims, issuer: JwtIssuer, now: float) -> None:
    """Raise `TokenFault` if the token is for another audience, expired or not valid yet."""
    audiences = claims.get("aud")
    given = [audiences] if isinstance(audiences, str) else audiences if isinstance(audiences, list) else []
    if not any(one in issuer.audiences for one in given):
        raise _fault(f"verify token: oidc: expected audience in {quoted(sorted(issuer.audiences))} got {quoted(given)}")
    if now > _number(claims, "exp"):
        raise _fault("verify token: oidc: token is expired")
    if now + _EARLY_S < _number(claims, "nbf"):
        raise _fault("verify token: oidc: current time is before the nbf (not before) time")


def user_of(claims: Claims, issuer: JwtIssuer) -> User:
    """Return the user. Raise `TokenFault` if claims are missing or violate a validation rule."""
    made = issuer.expressions
    values = expressions.claims_value(claims) if made.need_claims else {}
    name = expressions.username_of(made.username, values) if made.username else _username(claims, issuer)
    groups = _all_groups(claims, issuer, values)
    uid = expressions.uid_of(made.uid, values) if made.uid else _uid(claims, issuer)
    extra = {**_credential(claims), **expressions.extra_of(made.extra, values)}
    _check_required(claims, issuer.required)
    expressions.check_claims(made.claim_rules, values)
    if made.user_rules:
        expressions.check_user(made.user_rules, User(name, uid, tuple(groups), extra))
    return User(name, uid, known_groups(groups), extra)


def _username(claims: Claims, issuer: JwtIssuer) -> str:
    name = issuer.username_prefix + _text(claims, issuer.username_claim, "username claims")
    if issuer.username_claim == "email" and claims.get("email_verified", True) is not True:
        raise _fault("email not verified")
    return name


def _uid(claims: Claims, issuer: JwtIssuer) -> str:
    return _text(claims, issuer.uid_claim, "uid claim") if issuer.uid_claim else ""


def _all_groups(claims: Claims, issuer: JwtIssuer, values: Claims) -> list[str]:
    made = issuer.expressions
    if made.groups is not None:
        return expressions.groups_of(made.groups, values)
    return [issuer.groups_prefix + group for group in _groups(claims, issuer.groups_claim)]


def _credential(claims: Claims) -> dict[str, tuple[str, ...]]:
    jti = claims.get("jti")
    return {_CREDENTIAL: (f"JTI={jti}",)} if isinstance(jti, str) and jti else {}


def _check_required(claims: Claims, required: Mapping[str, str]) -> None:
    for claim, value in required.items():
        if claim not in claims:
            raise _fault(f"required claim {claim} not present in ID token")
        found = claims[claim]
        if found != value:
            raise _fault(f"required claim {claim} value does not match. Got = {found}, want = {value}")


def _groups(claims: Claims, claim: str) -> list[str]:
    found = claims.get(claim) if claim else None
    if found is None:
        return []
    groups = [found] if isinstance(found, str) else found
    if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
        raise _fault(f"parse groups claim {gotext.quote(claim)}: neither a string nor a list of strings")
    return groups


def _text(claims: Claims, claim: str, what: str) -> str:
    if claim not in claims:
        raise _fault(f"parse {what} {gotext.quote(claim)}: claim not present")
    found = claims[claim]
    if not isinstance(found, str):
        raise _fault(f"parse {what} {gotext.quote(claim)}: not a string")
    return found


def _number(claims: Claims, claim: str) -> float:
    found = claims.get(claim, 0)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else 0


def _fault(text: str) -> TokenFault:
    return TokenFault(f"oidc: {text}")


__all__ = ["check", "user_of"]
