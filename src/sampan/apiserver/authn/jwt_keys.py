"""The keys that verify service account tokens (the current signing key and older ones), and signature verification."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from sampan.apiserver.authn.authenticator import TokenError
from sampan.machinery.pki.token_signer import key_id

_CURVES = {
    "secp256r1": ("P-256", "ES256", 32),
    "secp384r1": ("P-384", "ES384", 48),
    "secp521r1": ("P-521", "ES512", 66),
}
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


class KeyFileError(ValueError):
    """A key is invalid, or of a type that cannot sign tokens."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
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


def read_keys(pems: Iterable[bytes]) -> tuple[VerificationKey, ...]:
    """Return the public keys of PEM files with public keys, private keys or certificates, without duplicates, in their
    order."""
    keys = {key.id: key for key in map(_read, pems)}
    return tuple(keys.values())


def _read(pem: bytes) -> VerificationKey:
    try:
        key = _public_key(pem)
    except (ValueError, TypeError) as error:
        raise KeyFileError(str(error)) from None
    if isinstance(key, rsa.RSAPublicKey):
        return VerificationKey(key_id(key), "RS256", key)
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return VerificationKey(key_id(key), _CURVES[key.curve.name][1], key)
    raise KeyFileError("tokens of service accounts need an RSA or an elliptic curve key")


def _public_key(pem: bytes) -> object:
    if b"PRIVATE KEY" in pem:
        return load_pem_private_key(pem, password=None).public_key()
    if b"BEGIN CERTIFICATE" in pem:
        from cryptography.x509 import load_pem_x509_certificate  # slow to import, and rarely needed

        return load_pem_x509_certificate(pem).public_key()
    return load_pem_public_key(pem)


class _IssuerClaim(msgspec.Struct):
    iss: str = ""


def issuer_of(token: str) -> str:
    """Return the unverified issuer of a token; empty if it is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3 or not parts[2]:
        return ""
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_IssuerClaim).iss
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        return ""


def verify_token(token: str, keys: Sequence[VerificationKey]) -> dict[str, Any]:
    """Return the claims of a token that one of the keys has signed. Raise `TokenError` if none has. Times are not
    checked."""
    import jwt

    reason = "no key verifies the token"
    for key in _select_candidates(token, keys):
        try:
            return jwt.decode(token, key.key, algorithms=[key.algorithm], options=SIGNATURE_ONLY)
        except jwt.PyJWTError as error:
            reason = str(error)
    raise TokenError(reason)


def _select_candidates(token: str, keys: Sequence[VerificationKey]) -> Sequence[VerificationKey]:
    """Return the key with the token's key ID, or all keys if it has none."""
    import jwt

    try:
        name = jwt.get_unverified_header(token).get("kid")
    except jwt.PyJWTError:
        return ()
    return [key for key in keys if key.id == name] if name else keys


_LATER = ("verify_aud", "verify_exp", "verify_nbf", "verify_iat", "verify_iss", "verify_sub", "verify_jti")
SIGNATURE_ONLY: Any = {"verify_signature": True, **dict.fromkeys(_LATER, False)}
