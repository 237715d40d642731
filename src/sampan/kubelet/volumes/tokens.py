"""Requests service account tokens for pods and caches them in memory. A token is renewed after 80 % of its lifetime or
24 hours, whichever comes first (`pkg/kubelet/token`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from sampan.api import times
from sampan.api.types.authentication_v1 import (
    BoundObjectReference,
    TokenRequest,
    TokenRequestSpec,
    TokenRequestStatus,
)
from sampan.api.types.core_v1 import Pod, ServiceAccount
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

_MAX_LIFETIME_S = 24 * 3600.0
_RETRY_S = 10.0
"""Retry interval after a failed renewal while the token is still valid."""


class ServiceAccountToken(NamedTuple):
    text: str
    expires_at: float
    renew_at: float

    def status(self) -> TokenRequestStatus:
        return TokenRequestStatus(token=self.text, expirationTimestamp=times.format_time(self.expires_at))


class TokenKey(NamedTuple):
    uid: str
    account: str
    audiences: tuple[str, ...]
    expiration_s: int | None


class TokenManager:
    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._accounts, self._clock = client.of(ServiceAccount), clock
        self._kept: dict[TokenKey, ServiceAccountToken] = {}

    async def get(self, pod: Pod, audiences: Sequence[str], expiration_s: int | None) -> ServiceAccountToken:
        """Return a token, renewed if it is due. If the renewal fails, the old one is returned until it expires; after
        that, or without one, raise VolumeOperationError.
        """
        key = TokenKey(pod.metadata.uid, pod.spec.serviceAccountName, tuple(audiences), expiration_s)
        kept, now = self._kept.get(key), self._clock.now()
        if kept is not None and now < kept.renew_at:
            return kept
        try:
            token = await self._request_token(pod, key)
        except (errors.ApiError, ConnectionFailed) as error:
            if kept is None:
                raise VolumeOperationError(f"failed to fetch token: {error}") from error
            if now > kept.expires_at:
                raise VolumeOperationError(
                    f"token {_description(pod, key)} expired and refresh failed: {error}"
                ) from error
            log.warning("cannot renew service account token %s: %s", _description(pod, key), error)
            token = kept._replace(renew_at=now + _RETRY_S)
        self._kept[key] = token
        return token

    def forget(self, uid: str) -> None:
        for key in [key for key in self._kept if key.uid == uid]:
            del self._kept[key]

    async def _request_token(self, pod: Pod, key: TokenKey) -> ServiceAccountToken:
        meta = pod.metadata
        spec = TokenRequestSpec(
            audiences=list(key.audiences) or None,
            expirationSeconds=key.expiration_s,
            boundObjectRef=BoundObjectReference(kind="Pod", apiVersion="v1", name=meta.name, uid=meta.uid),
        )
        response: TokenRequest = await self._accounts.create_subresource(
            "token", key.account, TokenRequest(spec=spec), meta.namespace
        )
        expires_at = times.parse_time(response.status.expirationTimestamp or "")
        life_s = float(response.spec.expirationSeconds or key.expiration_s or 3600)
        return ServiceAccountToken(response.status.token, expires_at, renewal(expires_at, life_s))


def renewal(expires_at: float, life_s: float) -> float:
    """Return the time at which to renew a token. Pure."""
    return min(expires_at - life_s * 0.2, expires_at - life_s + _MAX_LIFETIME_S)


def _description(pod: Pod, key: TokenKey) -> str:
    return f'"{key.account}"/"{pod.metadata.namespace}"/{list(key.audiences)}/{key.expiration_s}'
