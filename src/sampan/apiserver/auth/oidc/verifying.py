"""Whether a token was signed by its issuer."""

from __future__ import annotations

from typing import Any

from sampan.apiserver.auth.chain import TokenFault
from sampan.apiserver.auth.oidc.issuers import JwtIssuer
from sampan.apiserver.auth.oidc.keys import IssuerKeys
from sampan.apiserver.auth.signatures import SIGNATURE_ONLY


async def verified(token: str, issuer: JwtIssuer, keys: IssuerKeys) -> dict[str, Any]:
    """Its claims; `TokenFault` if nobody vouches for them."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as fault:
        raise TokenFault(f"oidc: verify token: {fault}") from None
    algorithm = str(header.get("alg"))
    if algorithm not in issuer.algorithms:
        raise TokenFault(f"oidc: verify token: signed with unsupported algorithm {algorithm!r}")
    for key in await keys.find(str(header.get("kid") or "")):
        try:
            return jwt.decode(token, key.key, algorithms=[algorithm], options=SIGNATURE_ONLY)
        except (jwt.PyJWTError, TypeError):  # a key of another kind than the algorithm's is refused by its type
            continue
    raise TokenFault("oidc: verify token: failed to verify signature: failed to verify id token signature")


__all__ = ["verified"]
