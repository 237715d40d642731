"""CEL expressions in authentication configuration files: mapping and validation of claims, and their validation."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from sampan.apiserver.authn.authentication_configuration import read_authentication
from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authn.oidc import JwtIssuer
from sampan.apiserver.authn.oidc import claim_mapping as claims_of
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.machinery.cel.cost_budget import UNLIMITED_COST
from sampan.machinery.config_file import ConfigFileError
from tests.apiserver.authn.oidc.jwt_issuer import write_config

CREDENTIAL = "authentication.kubernetes.io/credential-id"
CLAIMS: dict[str, Any] = {
    "sub": "ann",
    "aud": "kube",
    "roles": "dev,ops",
    "exp": 2000,
    "nbf": 1000,
    "jti": "j",
    "kubernetes.io": {"namespace": "ns", "pod": {"uid": "u1"}},
    "big": [1] * 2000,
}


def config(directory: Path, *, rules: list[Any] | None = None, users: list[Any] | None = None, **mappings: Any) -> Path:
    username = {"expression": "claims.sub"}
    jwt = {
        "issuer": {"url": "https://i", "audiences": ["kube"]},
        "claimMappings": {"username": username, **mappings},
        "claimValidationRules": rules or [],
        "userValidationRules": users or [],
    }
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt]}
    return write_config(directory, yaml.safe_dump(msgspec.to_builtins(kind)))


def issuer(directory: Path, **options: Any) -> JwtIssuer:
    (issuer,) = read_authentication(config(directory, **options)).issuers
    return issuer


def test_expressions_map_claims_to_user_info(tmp_path: Path) -> None:
    configured = issuer(
        tmp_path,
        username={"expression": '"oidc:" + claims.sub'},
        groups={"expression": 'claims.roles.split(",")'},
        uid={"expression": "string(int(claims.exp))"},
        extra=[
            {"key": "example.com/pod", "valueExpression": "claims.kubernetes__dot__io.pod.uid"},
            {"key": "example.com/none", "valueExpression": 'claims.?gone.orValue("")'},
            {"key": "example.com/many", "valueExpression": '["", "b"]'},
        ],
        rules=[
            {"expression": "claims.exp - claims.nbf <= 86400.0", "message": "too long"},
            {"expression": "has(claims.kubernetes__dot__io.pod)"},
            {"expression": 'sets.contains(claims.roles.split(","), ["ops"])'},
        ],
        users=[
            {"expression": 'user.groups.all(one, !one.startsWith("system:"))', "message": "reserved"},
            {"expression": 'user.extra.example__dot__com__slash__pod[0] == "u1" && user.uid == "2000"'},
        ],
    )
    extra = {CREDENTIAL: ("JTI=j",), "example.com/pod": ("u1",), "example.com/many": ("b",)}
    assert claims_of.user_of(CLAIMS, configured, UNLIMITED_COST) == UserInfo(
        "oidc:ann", "2000", ("dev", "ops", AUTHENTICATED), extra
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"username": {"expression": "claims.nobody"}},
            "oidc: error evaluating username claim expression: expression 'claims.nobody' resulted in error: "
            "no such key: nobody",
        ),
        ({"username": {"expression": '""'}}, "oidc: empty username via CEL expression is not allowed"),
        (
            {"username": {"expression": "claims.exp"}},
            "oidc: error evaluating username claim expression: username claim expression must return a string",
        ),
        (
            {"groups": {"expression": "[1]"}},
            "oidc: error evaluating group claim expression: expression must return a string or a list of strings",
        ),
        (
            {"uid": {"expression": "true"}},
            "oidc: error evaluating uid claim expression: uid claim expression must return a string",
        ),
        (
            {"extra": [{"key": "example.com/a", "valueExpression": "5"}]},
            "oidc: error evaluating extra claim expression: 5: expression must return a string or a list of strings",
        ),
        (
            {"rules": [{"expression": 'claims.sub == "ben"', "message": "only ben"}]},
            "oidc: error evaluating claim validation expression: validation expression 'claims.sub == \"ben\"' "
            "failed: only ben",
        ),
        (
            {"users": [{"expression": 'user.username != "ann"', "message": "not ann"}]},
            "oidc: error evaluating user info validation rule: validation expression 'user.username != \"ann\"' "
            "failed: not ann",
        ),
        (
            {"rules": [{"expression": "claims.big.all(a, claims.big.all(b, a == b))"}]},
            "resulted in error: operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_tokens_that_fail_expressions_are_rejected(tmp_path: Path, options: dict[str, Any], fault: str) -> None:
    new_issuer = issuer(tmp_path, **options)
    with pytest.raises(TokenError, match=re.escape(fault)):
        claims_of.user_of(CLAIMS, new_issuer, UNLIMITED_COST)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"rules": [{"expression": "claims.foo"}]},
            'jwt[0].claimValidationRules[0].expression: Invalid value: "claims.foo": must evaluate to bool',
        ),
        (
            {"rules": [{"expression": "claims.foo == 1", "requiredValue": "x"}]},
            'claimValidationRules[0].requiredValue: Invalid value: "x": may not be specified when expression is set',
        ),
        (
            {"rules": [{"expression": "claims.a == 1"}, {"expression": "claims.a == 1"}]},
            'jwt[0].claimValidationRules[1].expression: Duplicate value: "claims.a == 1"',
        ),
        (
            {"rules": [{"expression": "claims.a == 1", "claim": "a"}]},
            'jwt[0].claimValidationRules[0]: Invalid value: "a": claim and expression can\'t both be set',
        ),
        (
            {"rules": [{"expression": "user.username == 'foo'"}]},
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'user' (in container '')",
        ),
        (
            {"username": {"expression": "claims + 1"}},
            "compilation failed: ERROR: <input>:1:8: found no matching overload for '_+_' applied to "
            "'(map(string, any), int)'",
        ),
        (
            {"username": {"expression": "claims.sub", "prefix": "a"}},
            'claimMappings.username.prefix: Invalid value: "a": may not be specified when expression is set',
        ),
        (
            {"username": {"expression": "claims.email"}},
            "claims.email_verified must be used in claimMappings.username.expression or",
        ),
        ({"uid": {"expression": "a", "claim": "b"}}, "jwt[0].claimMappings.uid: Invalid value"),
        ({"users": [{"expression": ""}]}, "jwt[0].userValidationRules[0].expression: Required value"),
        ({"users": [{"expression": "user.username"}]}, "must evaluate to bool"),
        (
            {"users": [{"expression": "user.unknown == 'foo'"}]},
            "compilation failed: ERROR: <input>:1:5: undefined field 'unknown'\n | user.unknown",
        ),
        ({"extra": [{"key": "pod", "valueExpression": "'a'"}]}, "must be a domain-prefixed path"),
        ({"extra": [{"key": "example.com/A", "valueExpression": "'a'"}]}, "must be lowercase"),
        (
            {"extra": [{"key": "sub.k8s.io/a", "valueExpression": "'a'"}]},
            "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
        ),
        ({"extra": [{"key": "example.com/a"}]}, "claimMappings.extra[0].valueExpression: Required value"),
    ],
)
def test_invalid_expressions_in_the_configuration_file_are_rejected(
    tmp_path: Path, options: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigFileError, match=re.escape(fault)):
        issuer(tmp_path, **options)


def test_email_claim_is_accepted_if_email_verified_is_checked(tmp_path: Path) -> None:
    for options in (
        {"username": {"expression": "claims.?email_verified.orValue(false) ? claims.email : claims.sub"}},
        {"username": {"expression": "claims.email"}, "rules": [{"expression": "claims.email_verified == true"}]},
    ):
        new_issuer = issuer(tmp_path, **options)
        assert (
            claims_of.user_of({**CLAIMS, "email": "a@b", "email_verified": True}, new_issuer, UNLIMITED_COST).name
            == "a@b"
        )
