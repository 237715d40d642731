"""What tokens of service accounts say, once a key of ours has verified that."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from sampan.apiserver.auth.account_keys import AccountKey
from sampan.apiserver.auth.chain import TokenFault


class _Issued(msgspec.Struct):
    iss: str = ""


def issuer_of(token: str) -> str:
    """Who a token says it comes from, which nobody has verified; empty if it is no token of that kind."""
    parts = token.split(".")
    if len(parts) != 3 or not parts[2]:
        return ""
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Issued).iss
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        return ""


def verified(token: str, keys: Sequence[AccountKey]) -> dict[str, Any]:
    """The claims of a token that one of the keys has signed; `TokenFault` if none has. Times are not looked at."""
    import jwt

    fault = "no key verifies the token"
    for key in _candidates(token, keys):
        try:
            return jwt.decode(token, key.key, algorithms=[key.algorithm], options=SIGNATURE_ONLY)
        except jwt.PyJWTError as error:
            fault = str(error)
    raise TokenFault(fault)


def _candidates(token: str, keys: Sequence[AccountKey]) -> Sequence[AccountKey]:
    """The key that the token names, else all."""
    import jwt

    try:
        name = jwt.get_unverified_header(token).get("kid")
    except jwt.PyJWTError:
        return ()
    return [key for key in keys if key.id == name] if name else keys


_LATER = ("verify_aud", "verify_exp", "verify_nbf", "verify_iat", "verify_iss", "verify_sub", "verify_jti")
SIGNATURE_ONLY: Any = {"verify_signature": True, **dict.fromkeys(_LATER, False)}


__all__ = ["SIGNATURE_ONLY", "issuer_of", "verified"]
