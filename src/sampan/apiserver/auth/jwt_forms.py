"""The types of a JWT authenticator in the AuthenticationConfiguration file."""

from __future__ import annotations

import msgspec


class IssuerForm(msgspec.Struct, forbid_unknown_fields=True):
    url: str = ""
    discoveryURL: str = ""
    certificateAuthority: str = ""
    audiences: list[str] = msgspec.field(default_factory=list)
    audienceMatchPolicy: str = ""
    egressSelectorType: str = ""


class ClaimForm(msgspec.Struct, forbid_unknown_fields=True):
    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class ExtraForm(msgspec.Struct, forbid_unknown_fields=True):
    key: str = ""
    valueExpression: str = ""


class MappingsForm(msgspec.Struct, forbid_unknown_fields=True):
    username: ClaimForm = msgspec.field(default_factory=ClaimForm)
    groups: ClaimForm = msgspec.field(default_factory=ClaimForm)
    uid: ClaimForm = msgspec.field(default_factory=ClaimForm)
    extra: list[ExtraForm] = msgspec.field(default_factory=list)


class RuleForm(msgspec.Struct, forbid_unknown_fields=True):
    claim: str = ""
    requiredValue: str = ""
    expression: str = ""
    message: str = ""


class UserRuleForm(msgspec.Struct, forbid_unknown_fields=True):
    expression: str = ""
    message: str = ""


class JwtForm(msgspec.Struct, forbid_unknown_fields=True):
    issuer: IssuerForm = msgspec.field(default_factory=IssuerForm)
    claimValidationRules: list[RuleForm] = msgspec.field(default_factory=list)
    claimMappings: MappingsForm = msgspec.field(default_factory=MappingsForm)
    userValidationRules: list[UserRuleForm] = msgspec.field(default_factory=list)
