"""Distributed claims: groups that a token does not contain, but for which it names an endpoint."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authn.oidc import OidcTokens
from sampan.apiserver.authn.oidc.authenticator import source_of
from sampan.host.clock import VirtualClock
from tests.apiserver.authn.https_service import https_endpoint
from tests.apiserver.authn.oidc.jwt_issuer import Issuer, issuer_of

CLAIM_NAMES = {"groups": "provider", "other": "x"}


class ClaimsProvider(Issuer):
    """An issuer that also serves distributed claims to clients with the right access token."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[str, Any] = {"groups": ["a", "b"]}
        self.clock = VirtualClock()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/groups":
            return await super().respond(request)
        self.requests.append(request.headers.get("Authorization", ""))
        if request.headers.get("Authorization") != "Bearer right-token":
            return web.Response(status=403)
        return web.Response(text=self.token(self.clock, **self.claims))

    def token_with_claim_source(self, **source: str) -> str:
        """Return a token without groups that names the endpoint of this provider as their source."""
        claim_source = {"endpoint": f"{self.url}/groups", "access_token": "right-token", **source}
        return self.token(self.clock, _claim_names=CLAIM_NAMES, _claim_sources={"provider": claim_source})


def run_with_claims_provider(tmp_path: Path, work: Any) -> None:
    async def main() -> None:
        provider = ClaimsProvider()
        async with https_endpoint(tmp_path, provider.respond, wants_certificate=False) as endpoint:
            provider.url = endpoint.url
            issuer = issuer_of(endpoint, groups_claim="groups", groups_prefix="g:")
            await work(provider, OidcTokens(issuers=[issuer], clock=provider.clock))

    asyncio.run(main())


def test_distributed_groups_are_fetched_and_cached(tmp_path: Path) -> None:
    async def work(provider: ClaimsProvider, tokens: OidcTokens) -> None:
        token = provider.token_with_claim_source()
        for _ in range(2):
            authenticated = await tokens.authenticate_token(token)
            assert authenticated is not None
            assert authenticated.user.groups == ("g:a", "g:b", "system:authenticated")
        assert provider.requests.count("Bearer right-token") == 1, "the distributed claims of a token are cached"

    run_with_claims_provider(tmp_path, work)


def test_groups_in_the_token_take_precedence_over_distributed_groups(tmp_path: Path) -> None:
    async def work(provider: ClaimsProvider, tokens: OidcTokens) -> None:
        token = provider.token(provider.clock, groups=["own"], _claim_names=CLAIM_NAMES, _claim_sources={})
        authenticated = await tokens.authenticate_token(token)
        assert authenticated is not None
        assert authenticated.user.groups == ("g:own", "system:authenticated")
        assert "Bearer right-token" not in provider.requests

    run_with_claims_provider(tmp_path, work)


@pytest.mark.parametrize(
    ("source", "claims", "fault"),
    [
        ({"access_token": "wrong-token"}, {}, 'while getting distributed claim "groups": '),
        ({}, {"other": 1}, "did not contain claim: groups"),
        ({}, {"groups": ["a"], "aud": "else"}, "expected audience"),
        ({}, {"groups": ["a"], "exp": 1}, "token is expired"),
        ({}, {"groups": ["a"], "iss": ""}, "getting untrusted issuer from endpoint"),
        ({}, {"groups": ["a"], "iss": "https://127.0.0.1:1"}, "not initialized"),
    ],
)
def test_invalid_distributed_claims_are_rejected(
    tmp_path: Path, source: dict[str, str], claims: dict[str, Any], fault: str
) -> None:
    async def work(provider: ClaimsProvider, tokens: OidcTokens) -> None:
        provider.claims = claims
        with pytest.raises(TokenError, match="oidc: could not expand distributed claims") as refused:
            await tokens.authenticate_token(provider.token_with_claim_source(**source))
        assert fault in str(refused.value)

    run_with_claims_provider(tmp_path, work)


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"_claim_names": 1}, "error parsing distributed claim names"),
        ({"_claim_names": CLAIM_NAMES}, "no claim sources"),
        ({"_claim_names": CLAIM_NAMES, "_claim_sources": []}, "could not parse claim sources"),
        ({"_claim_names": CLAIM_NAMES, "_claim_sources": {}}, "contained a source provider missing"),
    ],
)
def test_invalid_claim_sources_are_rejected(claims: dict[str, Any], fault: str) -> None:
    with pytest.raises(TokenError, match=fault):
        source_of(claims, "groups")


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"_claim_names": {"other": "x"}, "_claim_sources": {}},
        {"_claim_names": CLAIM_NAMES, "_claim_sources": {"provider": {"JWT": "aggregated"}}},
    ],
)
def test_token_without_distributed_groups_has_no_claim_source(claims: dict[str, Any]) -> None:
    assert source_of(claims, "groups") is None
