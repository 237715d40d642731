"""Authentication with bootstrap tokens."""

import asyncio
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from sampan.api.types.core_v1 import Secret
from sampan.api.values import times
from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.bootstrap_tokens import BootstrapTokens
from sampan.host.clock import VirtualClock

TOKEN = "abcdef.0123456789abcdef"
DATA = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}


class OneSecret:
    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    async def find(self, kind: str, namespace: str, name: str) -> Any | None:
        is_stored = (kind, namespace, name) == ("Secret", "kube-system", self._secret.metadata.name)
        return self._secret if is_stored else None


def authenticate(
    token: str = TOKEN, type: str = "bootstrap.kubernetes.io/token", **changes: str
) -> AuthenticationResponse | None:
    data = {**DATA, **{key.replace("_", "-"): value for key, value in changes.items()}}
    encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
    value = {"metadata": {"name": "bootstrap-token-abcdef"}, "type": type, "data": encoded}
    secret = msgspec.json.decode(msgspec.json.encode(value), type=Secret)
    return asyncio.run(BootstrapTokens(objects=OneSecret(secret), clock=VirtualClock()).authenticate_token(token))


def test_valid_token_authenticates_with_bootstrapper_groups() -> None:
    authenticated = authenticate(auth_extra_groups="system:bootstrappers:workers")
    assert authenticated is not None
    groups = ("system:bootstrappers", "system:bootstrappers:workers", "system:authenticated")
    assert (authenticated.user.name, authenticated.user.groups) == ("system:bootstrap:abcdef", groups)


def time_after(offset_s: float) -> str:
    return times.format_time(VirtualClock().now() + offset_s)


def test_token_is_accepted_before_its_expiration() -> None:
    assert authenticate(expiration=time_after(10)) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"token": "abcdef.0123456789abcdex"},
        {"token": "abcdeg.0123456789abcdef"},
        {"token": "nonsense"},
        {"type": "Opaque"},
        {"usage_bootstrap_authentication": "false"},
        {"token_id": "abcdeg"},
        {"expiration": time_after(-10)},
        {"expiration": "soon"},
    ],
)
def test_invalid_and_expired_tokens_are_not_accepted(changes: dict[str, str]) -> None:
    assert authenticate(**changes) is None


def test_extra_groups_without_bootstrappers_prefix_are_rejected() -> None:
    with pytest.raises(TokenError):
        authenticate(auth_extra_groups="system:masters")
