"""Verification of the signature of service account tokens."""

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
    """Return the unverified issuer of a token; empty if it is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3 or not parts[2]:
        return ""
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Issued).iss
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        return ""


def verified(token: str, keys: Sequence[AccountKey]) -> dict[str, Any]:
    """Return the claims of a token that one of the keys has signed. Raise `TokenFault` if none has. Times are not
    checked."""
    import jwt

    reason = "no key verifies the token"
    for key in _candidates(token, keys):
        try:
            return jwt.decode(token, key.key, algorithms=[key.algorithm], options=SIGNATURE_ONLY)
        except jwt.PyJWTError as error:
            reason = str(error)
    raise TokenFault(reason)


def _candidates(token: str, keys: Sequence[AccountKey]) -> Sequence[AccountKey]:
    """Return the key with the token's key ID, or all keys if it has none."""
    import jwt

    try:
        name = jwt.get_unverified_header(token).get("kid")
    except jwt.PyJWTError:
        return ()
    return [key for key in keys if key.id == name] if name else keys


_LATER = ("verify_aud", "verify_exp", "verify_nbf", "verify_iat", "verify_iss", "verify_sub", "verify_jti")
SIGNATURE_ONLY: Any = {"verify_signature": True, **dict.fromkeys(_LATER, False)}
