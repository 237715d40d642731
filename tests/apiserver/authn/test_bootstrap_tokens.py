"""Tokens of nodes that join."""

import asyncio
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from sampan.api.types.core_v1 import Secret
from sampan.api.values import times
from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.bootstrap_tokens import BootstrapTokens
from sampan.machinery.clock import VirtualClock

TOKEN = "abcdef.0123456789abcdef"
DATA = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}


class OneSecret:
    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        is_stored = (kind, namespace, name) == ("Secret", "kube-system", self._secret.metadata.name)
        return self._secret if is_stored else None


def ask(
    token: str = TOKEN, type: str = "bootstrap.kubernetes.io/token", **changes: str
) -> AuthenticationResponse | None:
    data = {**DATA, **{key.replace("_", "-"): value for key, value in changes.items()}}
    encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
    value = {"metadata": {"name": "bootstrap-token-abcdef"}, "type": type, "data": encoded}
    secret = msgspec.json.decode(msgspec.json.encode(value), type=Secret)
    return asyncio.run(BootstrapTokens(objects=OneSecret(secret), clock=VirtualClock()).authenticate_token(token))


def test_a_good_token() -> None:
    authenticated = ask(auth_extra_groups="system:bootstrappers:workers")
    assert authenticated is not None
    groups = ("system:bootstrappers", "system:bootstrappers:workers", "system:authenticated")
    assert (authenticated.user.name, authenticated.user.groups) == ("system:bootstrap:abcdef", groups)


def when(offset_s: float) -> str:
    return times.format_time(VirtualClock().now() + offset_s)


def test_a_token_in_its_time() -> None:
    assert ask(expiration=when(10)) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"token": "abcdef.0123456789abcdex"},
        {"token": "abcdeg.0123456789abcdef"},
        {"token": "nonsense"},
        {"type": "Opaque"},
        {"usage_bootstrap_authentication": "false"},
        {"token_id": "abcdeg"},
        {"expiration": when(-10)},
        {"expiration": "soon"},
    ],
)
def test_what_is_not_believed(changes: dict[str, str]) -> None:
    assert ask(**changes) is None


def test_groups_of_others_are_refused() -> None:
    with pytest.raises(TokenError):
        ask(auth_extra_groups="system:masters")
