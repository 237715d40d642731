"""The bearer token of a request: from the Authorization header, or from a subprotocol of a browser's WebSocket."""

from __future__ import annotations

import base64
import binascii

from sampan.apiserver.call import Call

SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
"""The prefix of the subprotocol that contains a token."""
_EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


def bearer_token(call: Call) -> str:
    """Return the bearer token; empty if there is none or the header is malformed."""
    header = call.headers.get("Authorization")
    if header is None:
        return ""
    scheme, *words = header.strip().split(" ", 2)
    if scheme.lower() != "bearer" or not words:
        return ""
    if not words[0] and len(words) > 1:
        call.warn(_EXTRA_SPACE)
    return words[0]


def subprotocol_token(call: Call) -> str:
    """Return the token among the WebSocket subprotocols. There must be another subprotocol to negotiate besides it."""
    header = call.headers.get("Sec-WebSocket-Protocol")
    if header is None or call.headers.get("Upgrade", "").lower() != "websocket":
        return ""
    words = [word.strip() for word in header.split(",")]
    tokens = [word for word in words if word.startswith(SUBPROTOCOL)]
    if len(tokens) != 1 or len(words) == 1:
        return ""
    return _decoded(tokens[0].removeprefix(SUBPROTOCOL))


def _decoded(text: str) -> str:
    try:
        padding = "=" * (-len(text) % 4)
        return base64.b64decode(text + padding, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
