"""Bootstrap tokens for joining nodes: `ID.SECRET`, stored as secrets bootstrap-token-ID in kube-system."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.semantics.secret_types import BOOTSTRAP_TOKEN
from sampan.api.values import times
from sampan.apiserver.authn.authenticator import AuthenticationResponse, TokenError
from sampan.apiserver.authn.service_account_tokens import TokenObjectGetter
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.host.clock import Clock

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = "system:bootstrappers"
_EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    def __init__(self, *, objects: TokenObjectGetter, clock: Clock) -> None:
        self._objects, self._clock = objects, clock

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> AuthenticationResponse | None:
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        name, secret = match.groups()
        token_secret = await self._objects.find("Secret", "kube-system", f"bootstrap-token-{name}")
        if token_secret is None or token_secret.type != BOOTSTRAP_TOKEN:
            return None
        if token_secret.metadata.deletionTimestamp is not None:
            return None
        data = {key: _text(value) for key, value in token_secret.data.items()}
        if not self._is_good(data, name, secret):
            return None
        groups = [group.strip() for group in data.get("auth-extra-groups", "").split(",") if group.strip()]
        if not all(map(_EXTRA_GROUP.fullmatch, groups)):
            raise TokenError("the bootstrap token has groups that it may not have")
        return AuthenticationResponse(
            UserInfo(f"system:bootstrap:{name}", "", (_GROUP, *sorted(groups), AUTHENTICATED))
        )

    def _is_good(self, data: Mapping[str, str], name: str, secret: str) -> bool:
        return (
            data.get("token-id") == name
            and hmac.compare_digest(data.get("token-secret", "").encode(), secret.encode())
            and data.get("usage-bootstrap-authentication") == "true"
            and not self._is_over(data.get("expiration", ""))
        )

    def _is_over(self, expiration: str) -> bool:
        if not expiration:
            return False
        try:
            return times.parse_time(expiration) <= self._clock.now()
        except ValueError:
            return True


def _text(value: Any) -> str:
    """Return a value of a secret's data, which may be bytes or base64, as text."""
    try:
        raw = value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
        return bytes(raw).decode()
    except (binascii.Error, ValueError):
        return ""
