"""What requests for certificates are made of: names of signers, signed requests and certificates in PEM.

`cryptography` loads when the first one is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.gotext import quote
from sampan.apiserver.registry.podspec.formats import Faults

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateSigningRequest

_REQUEST, _CERTIFICATE = "CERTIFICATE REQUEST", "CERTIFICATE"
_BLOCK = re.compile(rb"-----BEGIN ([^-\r\n]*)-----[ \t]*\r?\n(.*?)\r?\n?-----END \1-----", re.DOTALL)
_LONGEST_PATH = names.SUBDOMAIN_MAX + names.LABEL_MAX + 1
_LONGEST_SIGNER = names.SUBDOMAIN_MAX + _LONGEST_PATH + 1


def signer_faults(signer: str, at: str) -> Faults:
    if not signer:
        yield FieldError.required(at)
        return
    if signer.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield FieldError.invalid(at, signer, text)
        return
    domain, path = signer.split("/")
    if names.size(domain) > names.SUBDOMAIN_MAX:
        yield FieldError.too_long(at, names.SUBDOMAIN_MAX)
    yield from _label_faults(domain, names.dns1123_label, at)
    if "." not in domain:
        yield FieldError.invalid(at, domain, "should be a domain with at least two segments separated by dots")
    yield from _label_faults(path, names.dns1123_subdomain, at)
    if names.size(signer) > _LONGEST_SIGNER:
        yield FieldError.too_long(at, _LONGEST_SIGNER)


def _label_faults(text: str, check: names.NameCheck, at: str) -> Faults:
    """The faults of the first label that has some."""
    for label in text.split("."):
        faults = check(label)
        for fault in faults:
            yield FieldError.invalid(at, text, f"validating label {quote(label)}: {fault}")
        if faults:
            return


class BadRequest(ValueError):
    """No signed request; the message is the server's."""


def parse_request(pem: bytes) -> CertificateSigningRequest:
    from cryptography import x509

    found = _BLOCK.search(pem)
    if found is None or found[1].decode("ascii", "replace") != _REQUEST:
        raise BadRequest(f"PEM block type must be {_REQUEST}")
    try:
        return x509.load_pem_x509_csr(found[0])
    except ValueError:
        raise BadRequest("asn1: structure error: malformed certificate request") from None


def request_fault(pem: bytes) -> str:
    """What is wrong with a request for a certificate; empty if nothing is."""
    try:
        request = parse_request(pem)
    except BadRequest as bad:
        return str(bad)
    try:
        is_signed = request.is_signature_valid
    except (ValueError, TypeError):
        return "x509: cannot verify signature: algorithm unimplemented"
    return "" if is_signed else _unsigned(request)


def _unsigned(request: CertificateSigningRequest) -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    key = request.public_key()
    if isinstance(key, RSAPublicKey):
        return "crypto/rsa: verification error"
    kind = "ECDSA" if isinstance(key, EllipticCurvePublicKey) else "Ed25519"
    return f"x509: {kind} verification failure"


def certificate_fault(pem: bytes) -> str:
    """What is wrong with issued certificates; empty if nothing is."""
    blocks = list(_blocks(pem))
    for kind, body in blocks:
        if kind != _CERTIFICATE:
            return f"only CERTIFICATE PEM blocks are allowed, found {quote(kind)}"
        if b":" in body:
            return "no PEM block headers are permitted"
        if _certificate(body) is None:
            return "x509: malformed certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def _blocks(pem: bytes) -> Iterator[tuple[str, bytes]]:
    for found in _BLOCK.finditer(pem):
        yield found[1].decode("ascii", "replace"), found[2]


def _certificate(body: bytes) -> Certificate | None:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----\n" % body)
    except ValueError:
        return None


def anchor_faults(pem: bytes) -> list[str]:
    """What is wrong with a bundle of CA certificates: each must be one, and be there once."""
    blocks = list(_blocks(pem))
    found = [f"entry {index} {fault}" for index, block in enumerate(blocks) if (fault := _anchor_fault(*block))]
    if found:
        return found
    if not blocks:
        return ["at least one trust anchor must be provided"]
    places: dict[bytes, list[int]] = {}
    for index, (_, body) in enumerate(blocks):
        places.setdefault(b"".join(body.split()), []).append(index)
    repeated = (" ".join(map(str, indices)) for indices in places.values() if len(indices) > 1)
    return [f"duplicate trust anchor (indices [{indices}])" for indices in repeated]


def _anchor_fault(kind: str, body: bytes) -> str:
    if kind != _CERTIFICATE:
        return f"has bad block type: {kind}"
    if b":" in body:
        return "has PEM block headers"
    certificate = _certificate(body)
    if certificate is None:
        return "does not parse as X.509"
    return "" if _is_ca(certificate) else "does not have the CA bit set"


def _is_ca(certificate: Certificate) -> bool:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False
