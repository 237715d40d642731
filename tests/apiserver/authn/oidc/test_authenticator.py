"""Tokens of an external OIDC issuer: real JWTs, its discovery document and keys fetched over HTTPS."""

import asyncio
import re
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.apiserver.authn.authentication_configuration import read_authentication
from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authn.oidc import JwtIssuer, OidcTokens
from sampan.apiserver.authn.oidc import claim_mapping as claims_of
from sampan.apiserver.authn.oidc.expressions import ClaimExpressions, claims_environment
from sampan.apiserver.config.config_reload import INTERVAL_S, ReloadingFile
from sampan.apiserver.request.call import UserInfo
from sampan.host.clock import VirtualClock
from sampan.machinery.cel.cost_budget import UNLIMITED_COST
from sampan.machinery.config_file import ConfigFileError
from tests.apiserver.authn.https_service import https_endpoint
from tests.apiserver.authn.oidc.jwt_issuer import CURVE, HEAD, JWT, OTHER, RSA, Issuer, issuer_of, write_config


def run_with_issuer(tmp_path: Path, work: Any, **more: Any) -> None:
    async def main() -> None:
        issuer, clock = Issuer(), VirtualClock()
        async with https_endpoint(tmp_path, issuer.respond, wants_certificate=False) as endpoint:
            issuer.url = endpoint.url
            await work(issuer, OidcTokens(issuers=[issuer_of(endpoint, **more)], clock=clock), clock)

    asyncio.run(main())


def test_token_claims_are_mapped_to_user_info(tmp_path: Path) -> None:
    async def work(issuer: Issuer, tokens: OidcTokens, clock: VirtualClock) -> None:
        token = issuer.token(clock, groups=["a", "b"], uid="7", jti="j", hd="example.com")
        authenticated = await tokens.authenticate_token(token)
        assert authenticated is not None
        extra = {"authentication.kubernetes.io/credential-id": ("JTI=j",)}
        assert authenticated.user == UserInfo("oidc:ann", "7", ("g:a", "g:b", "system:authenticated"), extra)
        await tokens.authenticate_token(token)
        assert issuer.requests == ["/.well-known/openid-configuration", "/keys"]
        with pytest.raises(TokenError, match="required claim hd value"):
            await tokens.authenticate_token(issuer.token(clock, hd="example.org", uid="7"))
        assert await tokens.authenticate_token("no.such.token") is None
        assert await tokens.authenticate_token(jwt.encode({"iss": "https://other"}, RSA, algorithm="RS256")) is None

    claims = {"groups_claim": "groups", "groups_prefix": "g:", "uid_claim": "uid", "required": {"hd": "example.com"}}
    run_with_issuer(tmp_path, work, **claims)


def test_costly_username_expression_is_evaluated(tmp_path: Path) -> None:
    numbers = str(list(range(200)))
    text = f"{numbers}.all(a, {numbers}.all(b, a + b >= 0)) ? claims.sub : ''"

    async def work(issuer: Issuer, tokens: OidcTokens, clock: VirtualClock) -> None:
        response = await tokens.authenticate_token(issuer.token(clock))
        assert response is not None
        assert response.user.name == "ann"

    run_with_issuer(tmp_path, work, expressions=ClaimExpressions(username=claims_environment().compile(text)))


def test_token_with_invalid_time_or_audience_is_rejected(tmp_path: Path) -> None:
    async def work(issuer: Issuer, tokens: OidcTokens, clock: VirtualClock) -> None:
        token = issuer.token(clock)
        assert await tokens.authenticate_token(token) is not None
        await clock.advance(601)
        with pytest.raises(TokenError, match="expired"):
            await tokens.authenticate_token(token)
        with pytest.raises(TokenError, match="nbf"):
            await tokens.authenticate_token(issuer.token(clock, nbf=clock.now() + 301))
        with pytest.raises(TokenError, match="expected audience"):
            await tokens.authenticate_token(issuer.token(clock, aud=["x", "y"]))

    run_with_issuer(tmp_path, work)


def test_keys_are_fetched_again_for_an_unknown_key_id(tmp_path: Path) -> None:
    async def work(issuer: Issuer, tokens: OidcTokens, clock: VirtualClock) -> None:
        assert await tokens.authenticate_token(issuer.token(clock)) is not None
        issuer.keys = {"two": OTHER, "curve": CURVE}
        fresh = issuer.token(clock, "two")
        with pytest.raises(TokenError, match="failed to verify"):
            await tokens.authenticate_token(fresh)
        await clock.advance(3)
        assert await tokens.authenticate_token(fresh) is not None
        assert await tokens.authenticate_token(issuer.token(clock, "curve")) is not None
        issuer.keys["two"] = RSA
        with pytest.raises(TokenError, match="failed to verify"):
            await tokens.authenticate_token(issuer.token(clock, "two", sub="forged"))
        assert issuer.requests.count("/keys") == 2, "keys are not fetched again for a known key ID"

    run_with_issuer(tmp_path, work)


def test_requests_to_an_unavailable_issuer_back_off(tmp_path: Path) -> None:
    async def work(issuer: Issuer, tokens: OidcTokens, clock: VirtualClock) -> None:
        issuer.is_down = True
        for _ in range(60):
            with pytest.raises(TokenError, match="not initialized"):
                await tokens.authenticate_token(issuer.token(clock))
            await clock.advance(1)
        assert len(issuer.requests) == 6, "after 0, 1, 3, 7, 15, 31 seconds"
        issuer.is_down = False
        await clock.advance(30)
        token = issuer.token(clock)
        assert await tokens.authenticate_token(token) is not None
        issuer.is_down = True
        await clock.advance(20)
        assert await tokens.authenticate_token(issuer.token(clock, sub="ben")) is not None, "known keys stay valid"

    run_with_issuer(tmp_path, work)


def test_discovery_document_of_another_issuer_is_rejected(tmp_path: Path) -> None:
    async def work(issuer: Issuer, tokens: OidcTokens, clock: VirtualClock) -> None:
        issuer.issuer_in_document = "https://other"
        with pytest.raises(TokenError, match="not initialized"):
            await tokens.authenticate_token(issuer.token(clock))

    run_with_issuer(tmp_path, work)


def test_tokens_with_disallowed_signing_algorithms_are_not_accepted(tmp_path: Path) -> None:
    async def work(issuer: Issuer, tokens: OidcTokens, clock: VirtualClock) -> None:
        issuer.keys["curve"] = CURVE
        with pytest.raises(TokenError, match="unsupported algorithm"):
            await tokens.authenticate_token(issuer.token(clock, "curve"))
        fields = {"iss": issuer.url, "sub": "root", "aud": "kube", "exp": clock.now() + 600}
        assert await tokens.authenticate_token(jwt.encode(fields, "", algorithm="none")) is None

    run_with_issuer(tmp_path, work, algorithms=("RS256",))


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"sub": "a", "email": "a@b", "email_verified": False}, "email not verified"),
        ({"sub": "a"}, 'parse username claims "email": claim not present'),
        ({"email": 7}, "not a string"),
        ({"email": "a@b", "groups": [1]}, "groups"),
    ],
)
def test_invalid_username_and_groups_claims_are_rejected(claims: dict[str, Any], fault: str) -> None:
    issuer = JwtIssuer(url="https://i", audiences=("a",), username_claim="email", groups_claim="groups")
    with pytest.raises(TokenError, match=fault):
        claims_of.user_of(claims, issuer, UNLIMITED_COST)


@given(
    st.dictionaries(st.sampled_from(["sub", "groups", "uid", "exp", "nbf", "aud", "jti", "hd"]), st.from_type(object))
)
def test_arbitrary_claims_raise_only_token_errors(claims: dict[str, Any]) -> None:
    issuer = JwtIssuer(url="https://i", audiences=("a",), groups_claim="groups", uid_claim="uid", required={"hd": "x"})
    try:
        claims_of.check(claims, issuer, 1.0)
        claims_of.user_of(claims, issuer, UNLIMITED_COST)
    except TokenError:
        pass


def test_an_authentication_configuration_file_is_read(tmp_path: Path) -> None:
    text = HEAD + JWT + "anonymous: {enabled: true, conditions: [{path: /healthz}]}"
    authentication = read_authentication(write_config(tmp_path, text))
    assert list(authentication.issuers) == [
        JwtIssuer(
            url="https://i",
            audiences=("a", "b"),
            groups_claim="roles",
            groups_prefix="r:",
            uid_claim="id",
            required={"hd": "example.com"},
        )
    ]
    assert (authentication.allows_anonymous, authentication.anonymous_paths) == (True, ("/healthz",))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kind: X", "want a AuthenticationConfiguration"),
        (HEAD + JWT.replace("https://i", "http://i"), r'jwt[0].issuer.url: Invalid value: "http://i": URL scheme'),
        (HEAD + JWT.replace("'https://i'", "''"), "jwt[0].issuer.url: Required value"),
        (HEAD + JWT.replace("https://i", "https://own"), "URL must not overlap with disallowed issuers: [https://own]"),
        (HEAD + JWT.replace("MatchAny", "MatchAll"), "audienceMatchPolicy must be MatchAny for multiple audiences"),
        (HEAD + JWT.replace("[a, b]", "[]"), "at least one jwt[0].issuer.audiences is required"),
        (HEAD + JWT.replace("claim: sub, prefix: ''", "claim: sub"), "username.prefix: Required value: prefix is"),
        (HEAD + JWT + "- issuer: {url: 'https://i'}", 'jwt[1].issuer.url: Duplicate value: "https://i"'),
        (HEAD + JWT.replace("audiences: [", "certificateAuthority: x, audiences: ["), "certificateAuthority"),
        (HEAD + JWT + "  surprise: 1", "surprise"),
        (HEAD + "anonymous: {enabled: false, conditions: [{path: /}]}", "anonymous.conditions"),
    ],
)
def test_invalid_authentication_configuration_files_are_rejected(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigFileError, match=re.escape(fault)):
        read_authentication(write_config(tmp_path, text), ["https://own"])


async def test_changed_authentication_configuration_file_is_reloaded(tmp_path: Path) -> None:
    clock, file = VirtualClock(), write_config(tmp_path, HEAD)
    counts: list[int] = []
    reloading = ReloadingFile(
        file,
        read=read_authentication,
        use=lambda authentication: counts.append(len(authentication.issuers)),
        clock=clock,
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reloading.run())
        await clock.advance(INTERVAL_S * 2)
        assert counts == []
        file.write_text(HEAD + JWT)
        await clock.advance(INTERVAL_S)
        assert counts == [1]
        file.write_text(HEAD + "jwt: [{}]")
        await clock.advance(INTERVAL_S)
        file.unlink()
        await clock.advance(INTERVAL_S)
        assert counts == [1], "an invalid or missing file changes nothing"
        file.write_text(HEAD)
        await clock.advance(INTERVAL_S)
        assert counts == [1, 0]
        task.cancel()
