"""Validation of certificate signing requests: signer names, the PEM-encoded request and the issued certificates.

`cryptography` is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.gotext import quote
from sampan.apiserver.registry.validation import FieldErrors
from sampan.machinery.pki.pem import CERTIFICATE, PemBlock, read_blocks

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateSigningRequest

_MAX_SIGNER_PATH_LENGTH = names.SUBDOMAIN_MAX + names.LABEL_MAX + 1
_MAX_SIGNER_LENGTH = names.SUBDOMAIN_MAX + _MAX_SIGNER_PATH_LENGTH + 1


def validate_signer_name(signer: str, field_path: str) -> FieldErrors:
    if not signer:
        yield FieldError.required(field_path)
        return
    if signer.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield FieldError.invalid(field_path, signer, text)
        return
    domain, path = signer.split("/")
    if names.size(domain) > names.SUBDOMAIN_MAX:
        yield FieldError.too_long(field_path, names.SUBDOMAIN_MAX)
    yield from _validate_signer_part(domain, names.dns1123_label, field_path)
    if "." not in domain:
        yield FieldError.invalid(field_path, domain, "should be a domain with at least two segments separated by dots")
    yield from _validate_signer_part(path, names.dns1123_subdomain, field_path)
    if names.size(signer) > _MAX_SIGNER_LENGTH:
        yield FieldError.too_long(field_path, _MAX_SIGNER_LENGTH)


def _validate_signer_part(text: str, check: names.NameCheck, path: str) -> FieldErrors:
    """Yield the errors of the first invalid DNS label in a part of a signer name."""
    for label in text.split("."):
        errors = check(label)
        for message in errors:
            yield FieldError.invalid(path, text, f"validating label {quote(label)}: {message}")
        if errors:
            return


def find_bundle_name_errors(name: str, signer: str, *, is_prefix: bool = False) -> list[str]:
    """Return the errors of a bundle's name, which must start with the name of its signer."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return names.dns1123_subdomain(name, prefix=is_prefix)
    prefix = f"{signer.replace('/', ':')}:"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return names.dns1123_subdomain(name.removeprefix(prefix), prefix=is_prefix)


def is_kubernetes_signer(signer: str) -> bool:
    domain = signer.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def parse_request(text: bytes) -> CertificateSigningRequest:
    """Parse `spec.request`. Raise ValueError with kube-apiserver's message if it is invalid."""
    from sampan.machinery.pki.certificates import parse_signing_request

    return parse_signing_request(text)


def find_request_error(text: bytes) -> str:
    """Return why `spec.request` is invalid, "" if it is valid."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        request = parse_request(text)
    except ValueError as error:
        return str(error)
    try:
        is_signed = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "x509: cannot verify signature: algorithm unimplemented"
    return "" if is_signed else _signature_error(request)


def _signature_error(request: CertificateSigningRequest) -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    key = request.public_key()
    if isinstance(key, RSAPublicKey):
        return "crypto/rsa: verification error"
    kind = "ECDSA" if isinstance(key, EllipticCurvePublicKey) else "Ed25519"
    return f"x509: {kind} verification failure"


def find_certificate_error(text: bytes) -> str:
    """Return why the PEM-encoded issued certificates are invalid, "" if they are valid."""
    is_empty = True
    for block in read_blocks(text):
        is_empty = False
        if block.type != CERTIFICATE:
            return f"only CERTIFICATE PEM blocks are allowed, found {quote(block.type)}"
        if block.headers:
            return "no PEM block headers are permitted"
        if _certificate(block) is None:
            return "x509: malformed certificate"
    return "must contain at least one CERTIFICATE PEM block" if is_empty else ""


def _certificate(block: PemBlock) -> Certificate | None:
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(block.content)
    except ValueError:
        return None


def find_trust_anchor_errors(text: bytes) -> list[str]:
    """Return the errors of a bundle of trust anchors: each must be a CA certificate, without duplicates."""
    blocks = list(read_blocks(text))
    messages = [
        f"entry {index} {message}" for index, block in enumerate(blocks) if (message := _find_trust_anchor_error(block))
    ]
    if messages:
        return messages
    if not blocks:
        return ["at least one trust anchor must be provided"]
    places: dict[bytes, list[int]] = {}
    for index, block in enumerate(blocks):
        places.setdefault(block.content, []).append(index)
    repeated = (" ".join(map(str, indices)) for indices in places.values() if len(indices) > 1)
    return [f"duplicate trust anchor (indices [{indices}])" for indices in repeated]


def _find_trust_anchor_error(block: PemBlock) -> str:
    if block.type != CERTIFICATE:
        return f"has bad block type: {block.type}"
    if block.headers:
        return "has PEM block headers"
    certificate = _certificate(block)
    if certificate is None:
        return "does not parse as X.509"
    return "" if _is_ca(certificate) else "does not have the CA bit set"


def _is_ca(certificate: Certificate) -> bool:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return False
