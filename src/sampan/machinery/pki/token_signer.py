"""Signs service account tokens. PyJWT and cryptography are imported with the first token, because they are slow to
import."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

_ALGORITHM_BY_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class TokenSigner:
    """Signs JWTs with an RSA or elliptic-curve key. `audiences` are those of the API server itself, by default the
    issuer."""

    def __init__(
        self,
        *,
        key_pem: bytes,
        issuer: str,
        audiences: Sequence[str] = (),
        longest_s: float = 0,
        extends: bool = True,
    ) -> None:
        """`longest_s` is the maximum lifetime of a requested token; 0 means no maximum. `extends` makes tokens of pods
        valid for a year, for programs that do not reload them (`--service-account-extend-token-expiration`)."""
        self.issuer, self.longest_s, self.extends = issuer, longest_s, extends
        self.audiences = tuple(audiences) or (issuer,)
        self._key_pem = key_pem

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key(self._key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("tokens of service accounts need an RSA or an elliptic curve key")
        return key

    @cached_property
    def _algorithm(self) -> str:
        curve = getattr(self._key, "curve", None)
        return "RS256" if curve is None else _ALGORITHM_BY_CURVE[curve.name]

    @cached_property
    def key_id(self) -> str:
        return key_id(self._key.public_key())

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a signed token with these claims and the issuer."""
        import jwt

        return jwt.encode(
            {**claims, "iss": self.issuer}, self._key, algorithm=self._algorithm, headers={"kid": self.key_id}
        )


def key_id(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    """Return the key ID (`kid`) of the public key that verifies a token."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
