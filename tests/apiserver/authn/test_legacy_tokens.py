"""Legacy service account tokens, which are stored in Secrets."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sampan.api.types.core_v1 import ObjectReference, Secret, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.jwt_keys import read_keys
from sampan.apiserver.authn.legacy_tokens import INVALID_SINCE, ISSUER, LAST_USED, LegacyTokens
from sampan.host.clock import VirtualClock
from sampan.machinery.pki.certificates import make_key
from sampan.machinery.pki.token_signer import TokenSigner

KEY = make_key()
SIGNER = TokenSigner(key_pem=KEY.key, issuer=ISSUER)
PREFIX = "kubernetes.io/serviceaccount/"
CLAIMS = {
    "sub": "system:serviceaccount:ns:robot",
    f"{PREFIX}namespace": "ns",
    f"{PREFIX}secret.name": "robot-token",
    f"{PREFIX}service-account.name": "robot",
    f"{PREFIX}service-account.uid": "u1",
}
TOKEN = SIGNER.sign(CLAIMS)


class Store:
    """The stored Secret and ServiceAccount, and the recorded uses of the token."""

    def __init__(self) -> None:
        meta = ObjectMeta(name="robot-token", namespace="ns", uid="s1")
        self.secret: Secret | None = Secret(metadata=meta, data={"token": TOKEN.encode()})
        self.account: ServiceAccount | None = ServiceAccount(
            metadata=ObjectMeta(name="robot", namespace="ns", uid="u1")
        )
        self.recorded_uses: list[tuple[str, str]] = []

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        obj = self.secret if kind == "Secret" else self.account
        return obj if obj is not None and (obj.metadata.namespace, obj.metadata.name) == (namespace, name) else None

    def record_use(self, secret: Secret, day: str) -> None:
        self.recorded_uses.append((secret.metadata.name, day))

    def authenticate_token(self, token: str = TOKEN, *audiences: str) -> AuthenticationResponse | None:
        tokens = LegacyTokens(
            keys=read_keys([KEY.certificate]),
            audiences=("api",),
            objects=self,
            clock=VirtualClock(),
            record_use=self.record_use,
        )
        return asyncio.run(tokens.authenticate_token(token, audiences))

    @property
    def labels(self) -> dict[str, str]:
        assert self.secret is not None
        return self.secret.metadata.labels


def test_token_authenticates_its_service_account_and_its_use_is_recorded() -> None:
    store = Store()
    authenticated = store.authenticate_token()
    assert authenticated is not None
    assert authenticated.user.name == "system:serviceaccount:ns:robot"
    assert authenticated.user.uid == "u1"
    assert authenticated.user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert (authenticated.audiences, authenticated.warnings) == (("api",), ())
    assert store.recorded_uses == [("robot-token", "2026-01-01")]


@pytest.mark.parametrize(("last", "count"), [("2026-01-01", 0), ("2026-01-02", 0), ("2025-12-31", 1), ("rubbish", 1)])
def test_last_use_is_recorded_once_a_day(last: str, count: int) -> None:
    store = Store()
    store.labels[LAST_USED] = last
    store.authenticate_token()
    assert len(store.recorded_uses) == count


def test_auto_generated_token_causes_a_warning() -> None:
    store = Store()
    assert store.account is not None
    store.account.secrets = [ObjectReference(name="robot-token")]
    authenticated = store.authenticate_token()
    assert authenticated is not None
    assert "instead of auto-generated" in authenticated.warnings[0]


def test_token_marked_invalid_is_rejected_but_its_use_is_recorded() -> None:
    store = Store()
    store.labels[INVALID_SINCE] = "2025-01-01"
    with pytest.raises(TokenError, match="has been marked invalid"):
        store.authenticate_token()
    assert store.recorded_uses


def _remove_secret(store: Store) -> None:
    store.secret = None


def _remove_account(store: Store) -> None:
    store.account = None


def _mark_secret_terminating(store: Store) -> None:
    assert store.secret is not None
    store.secret.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"


def _change_token(store: Store) -> None:
    assert store.secret is not None
    store.secret.data["token"] = b"x"


def _recreate_account(store: Store) -> None:
    assert store.account is not None
    store.account.metadata.uid = "u2"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_remove_secret, "Token has been invalidated"),
        (_mark_secret_terminating, "Token has been invalidated"),
        (_change_token, "does not match server's copy"),
        (_remove_account, "not found"),
        (_recreate_account, r"ServiceAccount UID \(u2\) does not match claim \(u1\)"),
    ],
)
def test_token_with_deleted_or_changed_secret_or_account_is_rejected(
    change: Callable[[Store], None], fault: str
) -> None:
    store = Store()
    change(store)
    with pytest.raises(TokenError, match=fault):
        store.authenticate_token()


@pytest.mark.parametrize("claim", list(CLAIMS))
def test_token_with_a_missing_claim_is_rejected(claim: str) -> None:
    fields = {key: value for key, value in CLAIMS.items() if key != claim}
    with pytest.raises(TokenError, match="claim is missing"):
        Store().authenticate_token(SIGNER.sign(fields))


def test_tokens_of_other_issuers_and_keys_are_not_accepted() -> None:
    store = Store()
    assert store.authenticate_token("nonsense") is None
    assert store.authenticate_token(TokenSigner(key_pem=KEY.key, issuer="https://other").sign(CLAIMS)) is None
    with pytest.raises(TokenError):
        store.authenticate_token(TokenSigner(key_pem=make_key().key, issuer=ISSUER).sign(CLAIMS))
    with pytest.raises(TokenError, match="sub claim is invalid"):
        store.authenticate_token(SIGNER.sign({**CLAIMS, "sub": "system:serviceaccount:ns:admin"}))
    with pytest.raises(TokenError, match="invalid for the target audiences"):
        store.authenticate_token(TOKEN, "elsewhere")
