"""Groups that a token does not have but says where they are."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.authn.authenticator import TokenError
from sampan.apiserver.authn.oidc import OidcTokens
from sampan.apiserver.authn.oidc.authenticator import source_of
from sampan.machinery.clock import VirtualClock
from tests.apiserver.authn.https_service import outside
from tests.apiserver.authn.oidc.jwt_issuer import Issuer, issuer_of

NAMES = {"groups": "there", "other": "x"}


class Keeper(Issuer):
    """Keeps groups for those who show the right token."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Any] = {"groups": ["a", "b"]}
        self.clock = VirtualClock()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/groups":
            return await super().respond(request)
        self.requests.append(request.headers.get("Authorization", ""))
        if request.headers.get("Authorization") != "Bearer door":
            return web.Response(status=403)
        return web.Response(text=self.token(self.clock, **self.kept))

    def pointing(self, **source: str) -> str:
        """A token without groups."""
        there = {"endpoint": f"{self.url}/groups", "access_token": "door", **source}
        return self.token(self.clock, _claim_names=NAMES, _claim_sources={"there": there})


def with_keeper(tmp_path: Path, work: Any) -> None:
    async def main() -> None:
        keeper = Keeper()
        async with outside(tmp_path, keeper.respond, wants_certificate=False) as there:
            keeper.url = there.url
            issuer = issuer_of(there, groups_claim="groups", groups_prefix="g:")
            await work(keeper, OidcTokens(issuers=[issuer], clock=keeper.clock))

    asyncio.run(main())


def test_distributed_groups_are_fetched(tmp_path: Path) -> None:
    async def work(keeper: Keeper, tokens: OidcTokens) -> None:
        token = keeper.pointing()
        for _ in range(2):
            authenticated = await tokens.authenticate_token(token)
            assert authenticated is not None
            assert authenticated.user.groups == ("g:a", "g:b", "system:authenticated")
        assert keeper.requests.count("Bearer door") == 1, "what a token said is kept"

    with_keeper(tmp_path, work)


def test_those_in_the_token_go_first(tmp_path: Path) -> None:
    async def work(keeper: Keeper, tokens: OidcTokens) -> None:
        token = keeper.token(keeper.clock, groups=["own"], _claim_names=NAMES, _claim_sources={})
        authenticated = await tokens.authenticate_token(token)
        assert authenticated is not None
        assert authenticated.user.groups == ("g:own", "system:authenticated")
        assert "Bearer door" not in keeper.requests

    with_keeper(tmp_path, work)


@pytest.mark.parametrize(
    ("source", "kept", "fault"),
    [
        ({"access_token": "window"}, {}, 'while getting distributed claim "groups": '),
        ({}, {"other": 1}, "did not contain claim: groups"),
        ({}, {"groups": ["a"], "aud": "else"}, "expected audience"),
        ({}, {"groups": ["a"], "exp": 1}, "token is expired"),
        ({}, {"groups": ["a"], "iss": ""}, "getting untrusted issuer from endpoint"),
        ({}, {"groups": ["a"], "iss": "https://127.0.0.1:1"}, "not initialized"),
    ],
)
def test_what_is_not_believed(tmp_path: Path, source: dict[str, str], kept: dict[str, Any], fault: str) -> None:
    async def work(keeper: Keeper, tokens: OidcTokens) -> None:
        keeper.kept = kept
        with pytest.raises(TokenError, match="oidc: could not expand distributed claims") as refused:
            await tokens.authenticate_token(keeper.pointing(**source))
        assert fault in str(refused.value)

    with_keeper(tmp_path, work)


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"_claim_names": 1}, "error parsing distributed claim names"),
        ({"_claim_names": NAMES}, "no claim sources"),
        ({"_claim_names": NAMES, "_claim_sources": []}, "could not parse claim sources"),
        ({"_claim_names": NAMES, "_claim_sources": {}}, "contained a source there missing"),
    ],
)
def test_tokens_that_point_nowhere(claims: dict[str, Any], fault: str) -> None:
    with pytest.raises(TokenError, match=fault):
        source_of(claims, "groups")


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"_claim_names": {"other": "x"}, "_claim_sources": {}},
        {"_claim_names": NAMES, "_claim_sources": {"there": {"JWT": "aggregated"}}},
    ],
)
def test_tokens_that_do_not_point(claims: dict[str, Any]) -> None:
    assert source_of(claims, "groups") is None
