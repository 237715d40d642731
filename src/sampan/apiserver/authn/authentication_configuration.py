"""The AuthenticationConfiguration file of --authentication-config: OIDC issuers with their validation and compiled CEL
expressions, and anonymous requests."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.field_errors import FieldError, FieldPath
from sampan.api.names import domain_prefixed_path
from sampan.apiserver.authn.oidc.expressions import (
    ClaimExpressions,
    ValidationRule,
    claims_environment,
    user_environment,
)
from sampan.apiserver.authn.oidc.issuers import JwtIssuer, url_errors
from sampan.apiserver.config.config_file import raise_errors, read_config
from sampan.machinery.cel.errors import CelError

if TYPE_CHECKING:
    from sampan.machinery.cel import Environment, Program


class IssuerConfig(msgspec.Struct, forbid_unknown_fields=True):
    url: str = ""
    discoveryURL: str = ""
    certificateAuthority: str = ""
    audiences: list[str] = msgspec.field(default_factory=list)
    audienceMatchPolicy: str = ""
    egressSelectorType: str = ""


class PrefixedClaimOrExpression(msgspec.Struct, forbid_unknown_fields=True):
    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class ExtraMapping(msgspec.Struct, forbid_unknown_fields=True):
    key: str = ""
    valueExpression: str = ""


class ClaimMappings(msgspec.Struct, forbid_unknown_fields=True):
    username: PrefixedClaimOrExpression = msgspec.field(default_factory=PrefixedClaimOrExpression)
    groups: PrefixedClaimOrExpression = msgspec.field(default_factory=PrefixedClaimOrExpression)
    uid: PrefixedClaimOrExpression = msgspec.field(default_factory=PrefixedClaimOrExpression)
    extra: list[ExtraMapping] = msgspec.field(default_factory=list)


class ClaimValidationRule(msgspec.Struct, forbid_unknown_fields=True):
    claim: str = ""
    requiredValue: str = ""
    expression: str = ""
    message: str = ""


class UserValidationRule(msgspec.Struct, forbid_unknown_fields=True):
    expression: str = ""
    message: str = ""


class JwtAuthenticatorConfig(msgspec.Struct, forbid_unknown_fields=True):
    issuer: IssuerConfig = msgspec.field(default_factory=IssuerConfig)
    claimValidationRules: list[ClaimValidationRule] = msgspec.field(default_factory=list)
    claimMappings: ClaimMappings = msgspec.field(default_factory=ClaimMappings)
    userValidationRules: list[UserValidationRule] = msgspec.field(default_factory=list)


_BOTH = "claim and expression can't both be set"
_EITHER = "claim or expression is required"
_NO_PREFIX = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
_SAME_URL = "discoveryURL must be different from URL"
_CLAIM_IS_SET_ERROR = "may not be specified when claim is set"
_EXPRESSION_IS_SET_ERROR = "may not be specified when expression is set"
_RESERVED = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
_UNVERIFIED = (
    "claims.email_verified must be used in claimMappings.username.expression or"
    " claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in"
    " claimMappings.username.expression"
)
FieldErrors = list[FieldError]


class JwtValidation:
    """Validates one issuer: `field_errors` are all errors, in field order, `expressions` the compiled expressions."""

    def __init__(self, jwt: JwtAuthenticatorConfig, path: FieldPath, own_issuers: Sequence[str]) -> None:
        """`own_issuers` are the issuers of service account tokens."""
        self.field_errors: FieldErrors = list(_issuer_errors(jwt.issuer, path / "issuer", own_issuers))
        mappings, mapped = jwt.claimMappings, path / "claimMappings"
        claim_rules = self._claim_rules(jwt.claimValidationRules, path / "claimValidationRules")
        username = self._compile_mapping(mappings.username, mapped / "username", is_required=True)
        groups = self._compile_mapping(mappings.groups, mapped / "groups", is_required=False)
        uid = self._uid(mappings.uid, mapped / "uid")
        extra = self._extra(mappings.extra, mapped / "extra")
        verifying = [rule.expression for rule in claim_rules] + list(extra.values())
        if username is not None and _takes_unverified(username, verifying):
            self._add(FieldError.invalid(mapped / "username" / "expression", username.text, _UNVERIFIED))
        self.expressions = ClaimExpressions(
            username=username,
            groups=groups,
            uid=uid,
            extra=extra,
            claim_rules=tuple(claim_rules),
            user_rules=tuple(self._user_rules(jwt.userValidationRules, path / "userValidationRules")),
        )

    def _add(self, *field_errors: FieldError) -> None:
        self.field_errors.extend(field_errors)

    def _claim_rules(self, rules: Sequence[ClaimValidationRule], within: FieldPath) -> list[ValidationRule]:
        claims: set[str] = set()
        expressions: set[str] = set()
        compiled_rules = []
        for index, rule in enumerate(rules):
            path = within[index]
            if rule.claim and rule.expression:
                self._add(FieldError.invalid(path, rule.claim, _BOTH))
            elif rule.claim:
                if rule.message:
                    self._add(FieldError.invalid(path / "message", rule.message, _CLAIM_IS_SET_ERROR))
                self._check_unique(rule.claim, claims, path / "claim")
            elif not rule.expression:
                self._add(FieldError.required(path, _EITHER))
            else:
                if rule.requiredValue:
                    self._add(FieldError.invalid(path / "requiredValue", rule.requiredValue, _EXPRESSION_IS_SET_ERROR))
                compiled = self._condition(rule.expression, expressions, path / "expression", claims_environment())
                compiled_rules += [ValidationRule(compiled, rule.message)] if compiled else []
        return compiled_rules

    def _user_rules(self, rules: Sequence[UserValidationRule], within: FieldPath) -> list[ValidationRule]:
        expressions: set[str] = set()
        compiled_rules = []
        for index, rule in enumerate(rules):
            path = within[index] / "expression"
            if not rule.expression:
                self._add(FieldError.required(path))
                continue
            compiled = self._condition(rule.expression, expressions, path, user_environment())
            compiled_rules += [ValidationRule(compiled, rule.message)] if compiled else []
        return compiled_rules

    def _condition(self, text: str, previous: set[str], path: FieldPath, environment: Environment) -> Program | None:
        if not self._check_unique(text, previous, path):
            return None
        compiled = self._compile(text, path, environment)
        if compiled is not None and compiled.result_type.kind != "bool":
            self._add(FieldError.invalid(path, text, "must evaluate to bool"))
            return None
        return compiled

    def _compile_mapping(
        self, claim: PrefixedClaimOrExpression, path: FieldPath, *, is_required: bool
    ) -> Program | None:
        if claim.claim and claim.expression:
            self._add(FieldError.invalid(path, "", _BOTH))
        elif claim.expression:
            if claim.prefix is not None:
                self._add(FieldError.invalid(path / "prefix", claim.prefix, _EXPRESSION_IS_SET_ERROR))
            return self._compile(claim.expression, path / "expression", claims_environment())
        elif claim.claim:
            if claim.prefix is None:
                self._add(FieldError.required(path / "prefix", _NO_PREFIX))
        elif is_required:
            self._add(FieldError.required(path, _EITHER))
        return None

    def _uid(self, claim: PrefixedClaimOrExpression, path: FieldPath) -> Program | None:
        if claim.claim and claim.expression:
            self._add(FieldError.invalid(path, "", _BOTH))
            return None
        return self._compile(claim.expression, path / "expression", claims_environment()) if claim.expression else None

    def _extra(self, listed: Sequence[ExtraMapping], within: FieldPath) -> dict[str, Program]:
        programs: dict[str, Program] = {}
        keys: set[str] = set()
        for index, mapping in enumerate(listed):
            path = within[index]
            self._add(*_key_errors(mapping.key, path / "key"))
            if not self._check_unique(mapping.key, keys, path / "key"):
                continue
            if not mapping.valueExpression:
                self._add(FieldError.required(path / "valueExpression"))
                continue
            compiled = self._compile(mapping.valueExpression, path / "valueExpression", claims_environment())
            programs |= {mapping.key: compiled} if compiled else {}
        return programs

    def _check_unique(self, value: str, previous: set[str], path: FieldPath) -> bool:
        if value in previous:
            self._add(FieldError.duplicate(path, value))
            return False
        previous.add(value)
        return True

    def _compile(self, text: str, path: FieldPath, environment: Environment) -> Program | None:
        try:
            return environment.compile(text)
        except CelError as error:
            self._add(FieldError.invalid(path, text, f"compilation failed: {error}"))
            return None


def _takes_unverified(username: Program, others: Iterable[Program]) -> bool:
    if not username.tree.selects("claims", "email"):
        return False
    return not any(program.tree.selects("claims", "email_verified") for program in (username, *others))


def _key_errors(key: str, path: FieldPath) -> FieldErrors:
    errors = domain_prefixed_path(key, str(path))
    if key != key.lower():
        errors.append(FieldError.invalid(path, key, "must be lowercase"))
    domain, slash, _ = key.partition("/")
    if slash and f".{domain}".endswith((".kubernetes.io", ".k8s.io")):
        errors.append(FieldError.invalid(path, key, _RESERVED))
    return errors


def _issuer_errors(issuer: IssuerConfig, path: FieldPath, own: Sequence[str]) -> Iterable[FieldError]:
    yield from _url_errors(issuer.url, path / "url", own) if issuer.url else [FieldError.required(path / "url")]
    if issuer.discoveryURL:
        if issuer.url and issuer.discoveryURL.rstrip("/") == issuer.url.rstrip("/"):
            yield FieldError.invalid(path / "discoveryURL", issuer.discoveryURL, _SAME_URL)
        yield from _url_errors(issuer.discoveryURL, path / "discoveryURL", ())
    yield from _audience_errors(issuer, path)
    if issuer.certificateAuthority and not _is_bundle(issuer.certificateAuthority):
        words = "data does not contain any valid RSA or ECDSA certificates"
        yield FieldError.invalid(path / "certificateAuthority", "<omitted>", words)
    if issuer.egressSelectorType:
        words = "egress selectors are not supported"
        yield FieldError.invalid(path / "egressSelectorType", issuer.egressSelectorType, words)


def _url_errors(url: str, path: FieldPath, disallowed: Sequence[str]) -> Iterable[FieldError]:
    if url in disallowed:
        words = f"URL must not overlap with disallowed issuers: [{' '.join(sorted(disallowed))}]"
        yield FieldError.invalid(path, url, words)
    yield from (FieldError.invalid(path, url, words) for words in url_errors(url))


def _audience_errors(issuer: IssuerConfig, path: FieldPath) -> Iterable[FieldError]:
    within, audiences = path / "audiences", issuer.audiences
    if not audiences:
        yield FieldError.required(within, f"at least one {within} is required")
        return
    for index, audience in enumerate(audiences):
        if not audience:
            yield FieldError.required(within[index])
        if audience in audiences[:index]:
            yield FieldError.duplicate(within[index], audience)
    policy, is_single = issuer.audienceMatchPolicy, len(audiences) == 1
    if policy != "MatchAny" and (policy or not is_single):
        words = "empty or MatchAny for single audience" if is_single else "MatchAny for multiple audiences"
        yield FieldError.invalid(path / "audienceMatchPolicy", policy, f"audienceMatchPolicy must be {words}")


def _is_bundle(pem: str) -> bool:
    try:
        ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True


GROUP, KIND = "apiserver.config.k8s.io", "AuthenticationConfiguration"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
_MAX_ISSUERS = 64


class _AnonymousCondition(msgspec.Struct, forbid_unknown_fields=True):
    path: str = ""


class _AnonymousConfig(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool = False
    conditions: list[_AnonymousCondition] = msgspec.field(default_factory=list)


class _AuthenticationFile(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    jwt: list[JwtAuthenticatorConfig] = msgspec.field(default_factory=list)
    anonymous: _AnonymousConfig | None = None


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    issuers: Sequence[JwtIssuer] = ()
    is_anonymous_set: bool = False
    allows_anonymous: bool = True
    anonymous_paths: Sequence[str] = ()
    """The paths on which anonymous requests are allowed; none: all paths."""


def read_authentication(path: Path, own_issuers: Sequence[str] = ()) -> AuthenticationSettings:
    """Return the validated file. Raise `ConfigFileError` with the invalid fields. `own_issuers` are the issuers of
    service account tokens, which must not be listed."""
    file = read_config(path, _AuthenticationFile, group=GROUP, versions=VERSIONS, kind=KIND)
    if len(file.jwt) > _MAX_ISSUERS:
        raise_errors([FieldError.too_many("jwt", len(file.jwt), _MAX_ISSUERS)])
    rules = [JwtValidation(jwt, FieldPath("jwt")[index], own_issuers) for index, jwt in enumerate(file.jwt)]
    jwt_errors = [error for issuer_rules in rules for error in issuer_rules.field_errors]
    raise_errors([*jwt_errors, *_duplicates(file.jwt), *_anonymous_errors(file.anonymous)])
    issuers = [_issuer(jwt, issuer_rules) for jwt, issuer_rules in zip(file.jwt, rules, strict=True)]
    anonymous = file.anonymous
    if anonymous is None:
        return AuthenticationSettings(issuers)
    paths = tuple(condition.path for condition in anonymous.conditions)
    return AuthenticationSettings(issuers, True, anonymous.enabled, paths)


def _duplicates(listed: Sequence[JwtAuthenticatorConfig]) -> list[FieldError]:
    errors: list[FieldError] = []
    urls: set[tuple[str, str]] = set()
    for index, jwt in enumerate(listed):
        for name, url in (("url", jwt.issuer.url), ("discoveryURL", jwt.issuer.discoveryURL)):
            if url and (name, url) in urls:
                errors.append(FieldError.duplicate(FieldPath("jwt")[index] / "issuer" / name, url))
            urls.add((name, url))
    return errors


def _anonymous_errors(anonymous: _AnonymousConfig | None) -> list[FieldError]:
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
