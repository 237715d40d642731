"""Verification of the signature of OIDC tokens."""

from __future__ import annotations

from typing import Any

from sampan.apiserver.auth.chain import TokenFault
from sampan.apiserver.auth.oidc.issuers import JwtIssuer
from sampan.apiserver.auth.oidc.keys import IssuerKeys
from sampan.apiserver.auth.signatures import SIGNATURE_ONLY


async def verified(token: str, issuer: JwtIssuer, keys: IssuerKeys) -> dict[str, Any]:
    """Return the claims. Raise `TokenFault` if no key of the issuer verifies the signature."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise TokenFault(f"oidc: verify token: {error}") from None
    algorithm = str(header.get("alg"))
    if algorithm not in issuer.algorithms:
        raise TokenFault(f"oidc: verify token: signed with unsupported algorithm {algorithm!r}")
    for key in await keys.find(str(header.get("kid") or "")):
        try:
            return jwt.decode(token, key.key, algorithms=[algorithm], options=SIGNATURE_ONLY)
        except (jwt.PyJWTError, TypeError):  # a key of another type than the algorithm's raises TypeError
            continue
    raise TokenFault("oidc: verify token: failed to verify signature: failed to verify id token signature")
