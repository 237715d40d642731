"""Signs the tokens of service accounts. PyJWT loads with the first token."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

_BY_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class TokenSigner:
    """`issuer` is who the tokens say they come from; `audiences` are what the API server itself goes by, the issuer
    unless told otherwise."""

    def __init__(self, *, key_pem: bytes, issuer: str, audiences: Sequence[str] = ()) -> None:
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        key = load_pem_private_key(key_pem, password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            self._algorithm = _BY_CURVE[key.curve.name]
        elif isinstance(key, rsa.RSAPrivateKey):
            self._algorithm = "RS256"
        else:
            raise ValueError("tokens of service accounts need an RSA or an elliptic curve key")
        self._key = key
        self.key_id = key_id(key.public_key())

    def sign(self, claims: Mapping[str, Any]) -> str:
        """The token with these claims and its issuer."""
        import jwt

        return jwt.encode(
            {**claims, "iss": self.issuer}, self._key, algorithm=self._algorithm, headers={"kid": self.key_id}
        )


def key_id(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    """What the header of a token calls the key that verifies it."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


__all__ = ["TokenSigner", "key_id"]
