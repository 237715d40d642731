"""The file of --authentication-config: issuers of tokens outside the cluster, and who may be anonymous where."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sampan.apiserver.auth.oidc.issuers import JwtIssuer, url_fault
from sampan.apiserver.config_file import ConfigFault, read_config

GROUP, KIND = "apiserver.config.k8s.io", "AuthenticationConfiguration"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
_MOST = 64


class _Issuer(msgspec.Struct, forbid_unknown_fields=True):
    url: str = ""
    discoveryURL: str = ""
    certificateAuthority: str = ""
    audiences: list[str] = msgspec.field(default_factory=list)
    audienceMatchPolicy: str = ""
    egressSelectorType: str = ""


class _Claim(msgspec.Struct, forbid_unknown_fields=True):
    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class _Mappings(msgspec.Struct, forbid_unknown_fields=True):
    username: _Claim = msgspec.field(default_factory=_Claim)
    groups: _Claim = msgspec.field(default_factory=_Claim)
    uid: _Claim = msgspec.field(default_factory=_Claim)
    extra: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    claim: str = ""
    requiredValue: str = ""
    expression: str = ""
    message: str = ""


class _Jwt(msgspec.Struct, forbid_unknown_fields=True):
    issuer: _Issuer = msgspec.field(default_factory=_Issuer)
    claimValidationRules: list[_Rule] = msgspec.field(default_factory=list)
    claimMappings: _Mappings = msgspec.field(default_factory=_Mappings)
    userValidationRules: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _Condition(msgspec.Struct, forbid_unknown_fields=True):
    path: str = ""


class _Anonymous(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool = False
    conditions: list[_Condition] = msgspec.field(default_factory=list)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    jwt: list[_Jwt] = msgspec.field(default_factory=list)
    anonymous: _Anonymous | None = None


@dataclass(frozen=True, slots=True)
class Authentication:
    issuers: Sequence[JwtIssuer] = ()
    is_anonymous_set: bool = False
    allows_anonymous: bool = True
    anonymous_paths: Sequence[str] = ()
    """Where the anonymous may go; none: everywhere."""


def read_authentication(path: Path, own_issuers: Sequence[str] = ()) -> Authentication:
    """`ConfigFault` names the field that is wrong. `own_issuers` are those of service accounts."""
    file = read_config(path, _File, group=GROUP, versions=VERSIONS, kind=KIND)
    if len(file.jwt) > _MOST:
        raise ConfigFault(f"jwt: must have at most {_MOST} items")
    issuers = list(_issuers(file.jwt, own_issuers))
    anonymous = file.anonymous
    if anonymous is None:
        return Authentication(issuers)
    if anonymous.conditions and not anonymous.enabled:
        raise ConfigFault("anonymous.conditions: enabled should be set to true when conditions are defined")
    paths = tuple(condition.path for condition in anonymous.conditions)
    return Authentication(issuers, True, anonymous.enabled, paths)


def _issuers(listed: Sequence[_Jwt], own: Sequence[str]) -> Iterator[JwtIssuer]:
    urls: set[str] = set()
    for index, jwt in enumerate(listed):
        at = f"jwt[{index}]"
        issuer = _issuer(jwt, at)
        if issuer.url in urls:
            raise ConfigFault(f"{at}.issuer.url: {issuer.url!r} is given twice")
        if issuer.url in own:
            raise ConfigFault(f"{at}.issuer.url: is that of the tokens of service accounts")
        urls.add(issuer.url)
        yield issuer


def _issuer(jwt: _Jwt, at: str) -> JwtIssuer:
    issuer, mappings = jwt.issuer, jwt.claimMappings
    _check_issuer(issuer, f"{at}.issuer")
    _refuse_expressions(jwt, at)
    _check_claim(mappings.username, f"{at}.claimMappings.username", is_required=True)
    _check_claim(mappings.groups, f"{at}.claimMappings.groups", is_required=False)
    return JwtIssuer(
        url=issuer.url,
        audiences=tuple(issuer.audiences),
        discovery_url=issuer.discoveryURL,
        ca_pem=issuer.certificateAuthority.encode(),
        username_claim=mappings.username.claim,
        username_prefix=mappings.username.prefix or "",
        groups_claim=mappings.groups.claim,
        groups_prefix=mappings.groups.prefix or "",
        uid_claim=mappings.uid.claim,
        required=_required(jwt.claimValidationRules, f"{at}.claimValidationRules"),
    )


def _check_issuer(issuer: _Issuer, at: str) -> None:
    if fault := url_fault(issuer.url) if issuer.url else "is missing":
        raise ConfigFault(f"{at}.url: {fault}")
    if issuer.discoveryURL:
        if issuer.discoveryURL.rstrip("/") == issuer.url.rstrip("/"):
            raise ConfigFault(f"{at}.discoveryURL: discoveryURL must be different from URL")
        if fault := url_fault(issuer.discoveryURL):
            raise ConfigFault(f"{at}.discoveryURL: {fault}")
    if not issuer.audiences or not all(issuer.audiences):
        raise ConfigFault(f"{at}.audiences: at least one is required, and none may be empty")
    if len(set(issuer.audiences)) < len(issuer.audiences):
        raise ConfigFault(f"{at}.audiences: one is given twice")
    allowed = ("MatchAny",) if len(issuer.audiences) > 1 else ("", "MatchAny")
    if issuer.audienceMatchPolicy not in allowed:
        raise ConfigFault(f"{at}.audienceMatchPolicy: must be MatchAny")
    if issuer.egressSelectorType:
        raise ConfigFault(f"{at}.egressSelectorType: egress selectors are not supported")
    if issuer.certificateAuthority and not _is_bundle(issuer.certificateAuthority):
        raise ConfigFault(f"{at}.certificateAuthority: is no certificate in PEM")


def _is_bundle(pem: str) -> bool:
    try:
        ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _refuse_expressions(jwt: _Jwt, at: str) -> None:
    mappings = jwt.claimMappings
    given = {
        "claimMappings.username.expression": mappings.username.expression,
        "claimMappings.groups.expression": mappings.groups.expression,
        "claimMappings.uid.expression": mappings.uid.expression,
        "claimMappings.extra": mappings.extra,
        "userValidationRules": jwt.userValidationRules,
        **{f"claimValidationRules[{n}].expression": rule.expression for n, rule in enumerate(jwt.claimValidationRules)},
    }
    for field, value in given.items():
        if value:
            raise ConfigFault(f"{at}.{field}: expressions in CEL are not supported")


def _check_claim(claim: _Claim, at: str, *, is_required: bool) -> None:
    if not claim.claim:
        if is_required:
            raise ConfigFault(f"{at}: claim or expression is required")
        if claim.prefix:
            raise ConfigFault(f"{at}.prefix: prefix can only be set with a claim")
    elif claim.prefix is None:
        raise ConfigFault(f"{at}.prefix: prefix is required when claim is set. It can be set to an empty string")


def _required(rules: Sequence[_Rule], at: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for index, rule in enumerate(rules):
        if not rule.claim:
            raise ConfigFault(f"{at}[{index}]: claim or expression is required")
        if rule.message:
            raise ConfigFault(f"{at}[{index}].message: may not be specified when claim is set")
        if rule.claim in found:
            raise ConfigFault(f"{at}[{index}].claim: {rule.claim!r} is given twice")
        found[rule.claim] = rule.requiredValue
    return found


__all__ = ["Authentication", "read_authentication"]
