"""Bootstrap token secrets: their contents and expiration."""

from __future__ import annotations

import re
from typing import Any

from sampan.api.times import parse_time
from sampan.api.types.core_v1 import Secret
from sampan.machinery.client import Selection

TYPE, NAMESPACE = "bootstrap.kubernetes.io/token", "kube-system"
OURS = Selection(namespace=NAMESPACE, fields=f"type={TYPE}")
_NAME = re.compile(r"bootstrap-token-([a-z0-9]{6})")


def text_of(secret: Secret, key: str) -> str:
    return secret.data.get(key, b"").decode("utf-8", "replace")


def left_s(secret: Secret, now: float) -> float:
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
    is_good = match is not None and match[1] == token_id and bool(token_secret) and left_s(secret, now) > 0
    return (token_id, token_secret) if is_good and text_of(secret, "usage-bootstrap-signing") == "true" else None


def is_token(secret: Any) -> bool:
    return bool(secret.type == TYPE and secret.metadata.namespace == NAMESPACE)
