"""bootstrap-signer-controller, which signs the cluster-info ConfigMap with every bootstrap token.

Joining nodes use the signatures to verify a cluster that they do not know yet.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import ConfigMap, Secret
from sampan.controllers.descriptor import Parts
from sampan.controllers.security.joining import OURS, left_s, signing_token
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection, resource_of
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory

NAME, NAMESPACE = "cluster-info", "kube-public"
KUBECONFIG, SIGNATURE = "kubeconfig", "jws-kubeconfig-"
_THE_MAP = Selection(namespace=NAMESPACE, fields=f"metadata.name={NAME}")
_KEY = f"{NAMESPACE}/{NAME}"


def signature(content: str, token_id: str, token_secret: str) -> str:
    """Return a detached JWS; the content itself is in the ConfigMap."""
    head = _encoded(json.encode({"alg": "HS256", "kid": token_id}))
    signed = hmac.new(token_secret.encode(), head + b"." + _encoded(content.encode()), hashlib.sha256).digest()
    return (head + b".." + _encoded(signed)).decode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def signed_data(data: Mapping[str, str], tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the data of the ConfigMap, signed with the tokens, which are keyed by their ids."""
    content = data.get(KUBECONFIG)
    if content is None:
        return dict(data)
    others = {key: value for key, value in data.items() if not key.startswith(SIGNATURE)}
    return {**others, **{SIGNATURE + name: signature(content, name, secret) for name, secret in tokens.items()}}


def _the_key(obj: Any) -> Iterable[Hashable]:
    return (_KEY,)


class BootstrapSigner:
    name = "bootstrap-signer-controller"
    watches = (
        Watch(resource_of(ConfigMap), _the_key, _THE_MAP),
        Watch(resource_of(Secret), _the_key, OURS),
    )

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._maps, self._clock = client.of(ConfigMap), clock
        self._known, self._secrets = informers.of(ConfigMap, _THE_MAP).lister, informers.of(Secret, OURS).lister

    async def reconcile(self, key: str) -> float | None:
        config_map = self._known.get(NAME, NAMESPACE)
        if config_map is None:
            return None
        now = self._clock.now()
        secrets = sorted(self._secrets, key=lambda secret: secret.metadata.name)
        tokens = dict(token for secret in secrets if (token := signing_token(secret, now)) is not None)
        data = signed_data(config_map.data, tokens)
        if data != config_map.data:
            await self._write(config_map, data)
        ends = [remaining_s for secret in secrets if (remaining_s := left_s(secret, now)) > 0]
        soonest = min(ends, default=float("inf"))
        return soonest if soonest != float("inf") else None

    async def _write(self, found: ConfigMap, data: dict[str, str]) -> None:
        fresh = copy_of(found)
        fresh.data = data
        try:
            await self._maps.update(fresh)
        except (errors.Conflict, errors.NotFound):
            return


def make(parts: Parts) -> BootstrapSigner:
    client = parts.client_for(BootstrapSigner.name)
    return BootstrapSigner(client=client, informers=parts.informers, clock=parts.clock)
