"""The keys that verify service account tokens: that of the signer, and older ones that are still accepted."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from sampan.machinery.token_signer import key_id

_CURVES = {
    "secp256r1": ("P-256", "ES256", 32),
    "secp384r1": ("P-384", "ES384", 48),
    "secp521r1": ("P-521", "ES512", 66),
}
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


class KeyFileError(ValueError):
    """A key is invalid, or of a type that cannot sign tokens."""


@dataclass(frozen=True, slots=True)
class AccountKey:
    id: str
    algorithm: str
    key: PublicKey

    def jwk(self) -> dict[str, Any]:
        """Return the key in JSON Web Key format."""
        head = {"use": "sig", "kty": "EC" if isinstance(self.key, ec.EllipticCurvePublicKey) else "RSA", "kid": self.id}
        if isinstance(self.key, rsa.RSAPublicKey):
            numbers = self.key.public_numbers()
            parts = {"n": _number(numbers.n), "e": _number(numbers.e)}
            return {**head, "alg": self.algorithm, **parts}
        crv, _, size = _CURVES[self.key.curve.name]
        point = self.key.public_numbers()
        return {**head, "crv": crv, "alg": self.algorithm, "x": _number(point.x, size), "y": _number(point.y, size)}


def _number(value: int, size: int = 0) -> str:
    text = value.to_bytes(size or (value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def read_keys(pems: Iterable[bytes]) -> tuple[AccountKey, ...]:
    """Return the public keys of PEM files with public or private keys, without duplicates, in their order."""
    keys = {key.id: key for key in map(_read, pems)}
    return tuple(keys.values())


def _read(pem: bytes) -> AccountKey:
    try:
        is_private = b"PRIVATE KEY" in pem
        key = load_pem_private_key(pem, password=None).public_key() if is_private else load_pem_public_key(pem)
    except (ValueError, TypeError) as error:
        raise KeyFileError(str(error)) from None
    if isinstance(key, rsa.RSAPublicKey):
        return AccountKey(key_id(key), "RS256", key)
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return AccountKey(key_id(key), _CURVES[key.curve.name][1], key)
    raise KeyFileError("tokens of service accounts need an RSA or an elliptic curve key")
