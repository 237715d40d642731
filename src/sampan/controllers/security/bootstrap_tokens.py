"""Bootstrap tokens: bootstrap-signer-controller and token-cleaner-controller (`pkg/controller/bootstrap`), and tokens
that are valid for one node only, which Kubernetes does not have."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from sampan.api.codec import json
from sampan.api.semantics.secret_types import BOOTSTRAP_TOKEN
from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.api.types.core_v1 import ConfigMap, Secret
from sampan.api.values.times import format_time, parse_time
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, Selection, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

NAMESPACE = "kube-system"
USER_PREFIX = "system:bootstrap:"
"""The prefix of the name of a user that authenticates with a bootstrap token. The id of the token follows it."""
ONE_USE_GROUP = "system:bootstrappers:sampan:one-use"
"""The group of users whose token is valid for one client certificate."""
BOOTSTRAP_TOKEN_SELECTION = Selection(namespace=NAMESPACE, fields=f"type={BOOTSTRAP_TOKEN}")
_NAME = re.compile(r"bootstrap-token-([a-z0-9]{6})")


def text_of(secret: Secret, key: str) -> str:
    return secret.data.get(key, b"").decode("utf-8", "replace")


def expires_in_s(secret: Secret, now: float) -> float:
    """Return the seconds until the token expires: infinity without an expiration, minus infinity if it is invalid."""
    expiration = text_of(secret, "expiration")
    if not expiration:
        return float("inf")
    try:
        return parse_time(expiration) - now
    except ValueError:
        return float("-inf")


def signing_token(secret: Secret, now: float) -> tuple[str, str] | None:
    """Return the id and the secret of a token that may be used for signing, or None."""
    match = _NAME.fullmatch(secret.metadata.name)
    token_id, token_secret = text_of(secret, "token-id"), text_of(secret, "token-secret")
    is_good = match is not None and match[1] == token_id and bool(token_secret) and expires_in_s(secret, now) > 0
    return (token_id, token_secret) if is_good and text_of(secret, "usage-bootstrap-signing") == "true" else None


class TokenCleanerController:
    name = "token-cleaner-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._secrets, self._known, self._clock = (
            client.for_kind(Secret),
            informers.for_kind(Secret, BOOTSTRAP_TOKEN_SELECTION).lister,
            clock,
        )
        self.watches = (Watch(resource_of(Secret), lambda secret: (key_of(secret),), BOOTSTRAP_TOKEN_SELECTION),)

    async def reconcile(self, key: NamespacedName) -> float | None:
        secret = self._known.get_by_key(key)
        if secret is None:
            return None
        remaining_s = expires_in_s(secret, self._clock.now())
        if remaining_s > 0:
            return None if remaining_s == float("inf") else remaining_s
        try:
            await self._secrets.delete(key.name, key.namespace, options=DeleteParameters(uid=secret.metadata.uid))
        except (errors.NotFound, errors.Conflict):
            return None
        return None


_USED_BY_KEY = "used-by"
_GRACE_S = 60.0
"""Seconds for which a used token still authenticates, so that its user can fetch the certificate."""


def is_for_one_use(request: CertificateSigningRequest) -> bool:
    """Whether the requester authenticated with a token for one use. The API server sets user and groups."""
    return request.spec.username.startswith(USER_PREFIX) and ONE_USE_GROUP in request.spec.groups


class OneUseTokens:
    """Records which CertificateSigningRequest a token for one use was used for.

    The record is in the Secret of the token and is written with optimistic concurrency, so that of several requests
    only one can claim the token. A claimed token expires, and the token cleaner deletes it.
    """

    def __init__(self, *, client: Client, clock: Clock) -> None:
        self._secrets, self._clock = client.for_kind(Secret), clock

    async def claim(self, request: CertificateSigningRequest) -> bool:
        """Claim the requester's token for this request. Return False if it is gone or was used for another request.

        Raise Conflict if the token changed meanwhile; the caller tries again.
        """
        name = f"bootstrap-token-{request.spec.username.removeprefix(USER_PREFIX)}"
        try:
            secret = await self._secrets.get(name, NAMESPACE)
        except errors.NotFound:
            return False
        if (used_by := text_of(secret, _USED_BY_KEY)) or expires_in_s(secret, self._clock.now()) <= 0:
            return used_by == request.metadata.uid
        claimed = copy_of(secret)
        ends = min(self._clock.now() + expires_in_s(secret, self._clock.now()), self._clock.now() + _GRACE_S)
        claimed.data = {
            **secret.data,
            _USED_BY_KEY: request.metadata.uid.encode(),
            "expiration": format_time(int(ends)).encode(),
        }
        await self._secrets.update(claimed)
        return True


CLUSTER_INFO, CLUSTER_INFO_NAMESPACE = "cluster-info", "kube-public"
KUBECONFIG, SIGNATURE = "kubeconfig", "jws-kubeconfig-"
_THE_MAP = Selection(namespace=CLUSTER_INFO_NAMESPACE, fields=f"metadata.name={CLUSTER_INFO}")
_KEY = f"{CLUSTER_INFO_NAMESPACE}/{CLUSTER_INFO}"


def signature(content: str, token_id: str, token_secret: str) -> str:
    """Return a JWS of the content in detached form, because the content itself is in the ConfigMap."""
    head = _encode_base64url(json.encode({"alg": "HS256", "kid": token_id}))
    signed = hmac.new(token_secret.encode(), head + b"." + _encode_base64url(content.encode()), hashlib.sha256).digest()
    return (head + b".." + _encode_base64url(signed)).decode()


def _encode_base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def sign_data(data: Mapping[str, str], tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the data of the ConfigMap, signed with the tokens, which are keyed by their ids."""
    content = data.get(KUBECONFIG)
    if content is None:
        return dict(data)
    others = {key: value for key, value in data.items() if not key.startswith(SIGNATURE)}
    return {**others, **{SIGNATURE + name: signature(content, name, secret) for name, secret in tokens.items()}}


def _cluster_info_keys(obj: Any) -> Iterable[Hashable]:
    return (_KEY,)


class BootstrapSignerController:
    name = "bootstrap-signer-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._maps, self._clock = client.for_kind(ConfigMap), clock
        self._known, self._secrets = (
            informers.for_kind(ConfigMap, _THE_MAP).lister,
            informers.for_kind(Secret, BOOTSTRAP_TOKEN_SELECTION).lister,
        )
        self.watches = (
            Watch(resource_of(ConfigMap), _cluster_info_keys, _THE_MAP),
            Watch(resource_of(Secret), _cluster_info_keys, BOOTSTRAP_TOKEN_SELECTION),
        )

    async def reconcile(self, key: str) -> float | None:
        config_map = self._known.get(CLUSTER_INFO, CLUSTER_INFO_NAMESPACE)
        if config_map is None:
            return None
        now = self._clock.now()
        secrets = sorted(self._secrets, key=lambda secret: secret.metadata.name)
        tokens = dict(token for secret in secrets if (token := signing_token(secret, now)) is not None)
        data = sign_data(config_map.data, tokens)
        if data != config_map.data:
            await self._write(config_map, data)
        ends = [remaining_s for secret in secrets if (remaining_s := expires_in_s(secret, now)) > 0]
        soonest = min(ends, default=float("inf"))
        return soonest if soonest != float("inf") else None

    async def _write(self, config_map: ConfigMap, data: dict[str, str]) -> None:
        fresh = copy_of(config_map)
        fresh.data = data
        try:
            await self._maps.update(fresh)
        except (errors.Conflict, errors.NotFound):
            return
