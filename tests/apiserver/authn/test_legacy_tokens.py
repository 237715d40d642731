"""Tokens of service accounts that are kept in secrets."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sampan.api.types.core_v1 import ObjectReference, Secret, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.jwt_keys import read_keys
from sampan.apiserver.authn.legacy_tokens import INVALID_SINCE, ISSUER, LAST_USED, LegacyTokens
from sampan.machinery.clock import VirtualClock
from sampan.machinery.pki.certificates import make_key
from sampan.machinery.pki.token_signer import TokenSigner

KEY = make_key()
SIGNER = TokenSigner(key_pem=KEY.key, issuer=ISSUER)
OURS = "kubernetes.io/serviceaccount/"
CLAIMS = {
    "sub": "system:serviceaccount:ns:robot",
    f"{OURS}namespace": "ns",
    f"{OURS}secret.name": "robot-token",
    f"{OURS}service-account.name": "robot",
    f"{OURS}service-account.uid": "u1",
}
TOKEN = SIGNER.sign(CLAIMS)


class World:
    """What is stored, and which uses were noted."""

    def __init__(self) -> None:
        meta = ObjectMeta(name="robot-token", namespace="ns", uid="s1")
        self.secret: Secret | None = Secret(metadata=meta, data={"token": TOKEN.encode()})
        self.account: ServiceAccount | None = ServiceAccount(
            metadata=ObjectMeta(name="robot", namespace="ns", uid="u1")
        )
        self.noted: list[tuple[str, str]] = []

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        obj = self.secret if kind == "Secret" else self.account
        return obj if obj is not None and (obj.metadata.namespace, obj.metadata.name) == (namespace, name) else None

    async def note(self, secret: Secret, day: str) -> None:
        self.noted.append((secret.metadata.name, day))

    def authenticate_token(self, token: str = TOKEN, *audiences: str) -> AuthenticationResponse | None:
        tokens = LegacyTokens(
            keys=read_keys([KEY.certificate]), audiences=("api",), objects=self, clock=VirtualClock(), note=self.note
        )
        return asyncio.run(tokens.authenticate_token(token, audiences))

    @property
    def labels(self) -> dict[str, str]:
        assert self.secret is not None
        return self.secret.metadata.labels


def test_a_token_names_its_account_and_its_use_is_noted() -> None:
    world = World()
    authenticated = world.authenticate_token()
    assert authenticated is not None
    assert authenticated.user.name == "system:serviceaccount:ns:robot"
    assert authenticated.user.uid == "u1"
    assert authenticated.user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert (authenticated.audiences, authenticated.warnings) == (("api",), ())
    assert world.noted == [("robot-token", "2026-01-01")]


@pytest.mark.parametrize(("last", "count"), [("2026-01-01", 0), ("2026-01-02", 0), ("2025-12-31", 1), ("rubbish", 1)])
def test_use_is_noted_once_a_day(last: str, count: int) -> None:
    world = World()
    world.labels[LAST_USED] = last
    world.authenticate_token()
    assert len(world.noted) == count


def test_a_token_that_was_made_for_the_account_warns() -> None:
    world = World()
    assert world.account is not None
    world.account.secrets = [ObjectReference(name="robot-token")]
    authenticated = world.authenticate_token()
    assert authenticated is not None
    assert "instead of auto-generated" in authenticated.warnings[0]


def test_one_that_is_marked_invalid_is_refused_but_noted() -> None:
    world = World()
    world.labels[INVALID_SINCE] = "2025-01-01"
    with pytest.raises(TokenError, match="has been marked invalid"):
        world.authenticate_token()
    assert world.noted


def _no_secret(world: World) -> None:
    world.secret = None


def _no_account(world: World) -> None:
    world.account = None


def _going(world: World) -> None:
    assert world.secret is not None
    world.secret.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"


def _another_token(world: World) -> None:
    assert world.secret is not None
    world.secret.data["token"] = b"x"


def _another_account(world: World) -> None:
    assert world.account is not None
    world.account.metadata.uid = "u2"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_no_secret, "Token has been invalidated"),
        (_going, "Token has been invalidated"),
        (_another_token, "does not match server's copy"),
        (_no_account, "not found"),
        (_another_account, r"ServiceAccount UID \(u2\) does not match claim \(u1\)"),
    ],
)
def test_what_ends_a_token(change: Callable[[World], None], fault: str) -> None:
    world = World()
    change(world)
    with pytest.raises(TokenError, match=fault):
        world.authenticate_token()


@pytest.mark.parametrize("claim", list(CLAIMS))
def test_claims_that_are_missing(claim: str) -> None:
    fields = {key: value for key, value in CLAIMS.items() if key != claim}
    with pytest.raises(TokenError, match="claim is missing"):
        World().authenticate_token(SIGNER.sign(fields))


def test_tokens_of_other_issuers_and_keys_are_not_accepted() -> None:
    world = World()
    assert world.authenticate_token("nonsense") is None
    assert world.authenticate_token(TokenSigner(key_pem=KEY.key, issuer="https://other").sign(CLAIMS)) is None
    with pytest.raises(TokenError):
        world.authenticate_token(TokenSigner(key_pem=make_key().key, issuer=ISSUER).sign(CLAIMS))
    with pytest.raises(TokenError, match="sub claim is invalid"):
        world.authenticate_token(SIGNER.sign({**CLAIMS, "sub": "system:serviceaccount:ns:admin"}))
    with pytest.raises(TokenError, match="invalid for the target audiences"):
        world.authenticate_token(TOKEN, "elsewhere")
