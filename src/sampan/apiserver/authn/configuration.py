"""The AuthenticationConfiguration file of --authentication-config: OIDC issuers and anonymous requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import msgspec

from sampan.api.field_errors import FieldError, Path
from sampan.apiserver.authn.jwt_config import JwtAuthenticatorConfig, JwtValidation
from sampan.apiserver.authn.oidc.issuers import JwtIssuer
from sampan.apiserver.config.config_file import raise_errors, read_config

GROUP, KIND = "apiserver.config.k8s.io", "AuthenticationConfiguration"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
_MOST = 64


class _Condition(msgspec.Struct, forbid_unknown_fields=True):
    path: str = ""


class _Anonymous(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool = False
    conditions: list[_Condition] = msgspec.field(default_factory=list)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    jwt: list[JwtAuthenticatorConfig] = msgspec.field(default_factory=list)
    anonymous: _Anonymous | None = None


@dataclass(frozen=True, slots=True)
class Authentication:
    issuers: Sequence[JwtIssuer] = ()
    is_anonymous_set: bool = False
    allows_anonymous: bool = True
    anonymous_paths: Sequence[str] = ()
    """The paths on which anonymous requests are allowed; none: all paths."""


def read_authentication(path: File, own_issuers: Sequence[str] = ()) -> Authentication:
    """Return the validated file. Raise `ConfigFault` with the invalid fields. `own_issuers` are those of service
    account tokens, which must not be listed."""
    file = read_config(path, _File, group=GROUP, versions=VERSIONS, kind=KIND)
    if len(file.jwt) > _MOST:
        raise_errors([FieldError.too_many("jwt", len(file.jwt), _MOST)])
    rules = [JwtValidation(jwt, Path("jwt")[index], own_issuers) for index, jwt in enumerate(file.jwt)]
    jwt_errors = [error for issuer_rules in rules for error in issuer_rules.field_errors]
    raise_errors([*jwt_errors, *_duplicates(file.jwt), *_anonymous_errors(file.anonymous)])
    issuers = [_issuer(jwt, issuer_rules) for jwt, issuer_rules in zip(file.jwt, rules, strict=True)]
    anonymous = file.anonymous
    if anonymous is None:
        return Authentication(issuers)
    paths = tuple(condition.path for condition in anonymous.conditions)
    return Authentication(issuers, True, anonymous.enabled, paths)


def _duplicates(listed: Sequence[JwtAuthenticatorConfig]) -> list[FieldError]:
    errors: list[FieldError] = []
    urls: set[tuple[str, str]] = set()
    for index, jwt in enumerate(listed):
        for name, url in (("url", jwt.issuer.url), ("discoveryURL", jwt.issuer.discoveryURL)):
            if url and (name, url) in urls:
                errors.append(FieldError.duplicate(Path("jwt")[index] / "issuer" / name, url))
            urls.add((name, url))
    return errors


def _anonymous_errors(anonymous: _Anonymous | None) -> list[FieldError]:
    if anonymous is None or anonymous.enabled or not anonymous.conditions:
        return []
    conditions: list[Any] = [msgspec.to_builtins(condition) for condition in anonymous.conditions]
    words = "enabled should be set to true when conditions are defined"
    return [FieldError.invalid("anonymous.conditions", conditions, words)]


def _issuer(jwt: JwtAuthenticatorConfig, rules: JwtValidation) -> JwtIssuer:
    issuer, mappings = jwt.issuer, jwt.claimMappings
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
        required={rule.claim: rule.requiredValue for rule in jwt.claimValidationRules if rule.claim},
        expressions=rules.expressions,
    )
