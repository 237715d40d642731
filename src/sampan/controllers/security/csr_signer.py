"""certificatesigningrequest-signing-controller, which signs approved requests for the built-in signers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from sampan.api.values import times
from sampan.controllers.descriptor import ControllerConfig, ControllerContext
from sampan.controllers.security.csr_approver import (
    APPROVED,
    DENIED,
    FAILED,
    SIGNERS,
    UnreadableRequest,
    has_condition,
    parse_requested_certificate,
    read,
)
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

if TYPE_CHECKING:
    from cryptography import x509

_BACKDATED_S = 300
"""Seconds by which certificates are backdated to allow for clock skew."""
_MIN_SHORTENED_LIFETIME_S = 8 * 3600
"""Certificates with a shorter lifetime, in seconds, are not shortened by the backdating."""
_MIN_LIFETIME_S = 600
_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}


class CannotSign(ValueError):
    """The CA has expired, or the signature of the request does not verify."""


def lifetime_s(asked_s: int | None, max_s: float) -> float:
    """Return the lifetime of a certificate: the requested one within bounds."""
    return max_s if asked_s is None else max(min(asked_s, max_s), min(_MIN_LIFETIME_S, max_s))


def span(lifetime_s: float, ca_end: datetime, now: float) -> tuple[datetime, datetime]:
    """Return the validity period, which does not exceed that of the CA."""
    signed_at = datetime.fromtimestamp(now, UTC)
    if signed_at >= ca_end:
        raise CannotSign(f"refusing to sign a certificate that expired in the past: NotAfter={ca_end}")
    lost_s = 0 if lifetime_s < _MIN_SHORTENED_LIFETIME_S else _BACKDATED_S
    return signed_at - timedelta(seconds=_BACKDATED_S), min(signed_at + timedelta(seconds=lifetime_s - lost_s), ca_end)


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A CA whose files are read for each certificate, as they may be replaced."""

    certificate: Path
    key: Path
    max_s: float

    def sign(
        self, csr: x509.CertificateSigningRequest, usages: Sequence[str], asked_s: int | None, now: float
    ) -> bytes:
        """Return the signed certificate in PEM; raise CannotSign if the CA has expired or the request is invalid."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        if not csr.is_signature_valid:
            raise CannotSign("unable to verify certificate request signature")
        ca = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        key: Any = serialization.load_pem_private_key(self.key.read_bytes(), password=None)
        begin, end = span(lifetime_s(asked_s, self.max_s), ca.not_valid_after_utc, now)
        builder = (
            x509.CertificateBuilder()
            .subject_name(csr.subject)
            .issuer_name(ca.subject)
            .public_key(cast("Any", csr.public_key()))
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
        )
        for extension, is_critical in _extensions(csr, usages, key):
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _extensions(
    csr: x509.CertificateSigningRequest, usages: Sequence[str], key: Any
) -> list[tuple[x509.ExtensionType, bool]]:
    from cryptography import x509

    extensions: list[tuple[x509.ExtensionType, bool]] = []
    if flags := {_USAGES[usage] for usage in usages if usage in _USAGES}:
        extensions.append((x509.KeyUsage(**{name: name in flags for name in set(_USAGES.values())}), True))
    if extended := sorted({_EXTENDED[usage] for usage in usages if usage in _EXTENDED}):
        extensions.append((x509.ExtendedKeyUsage([x509.ObjectIdentifier(oid) for oid in extended]), False))
    extensions.append((x509.BasicConstraints(ca=False, path_length=None), True))
    extensions.append((x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False))
    try:
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return extensions
    return [*extensions, (names, False)]


log = logging.getLogger(__name__)


def is_due(request: CertificateSigningRequest) -> bool:
    """Whether the request is approved, for a built-in signer, and neither signed nor failed."""
    if request.spec.signerName not in SIGNERS or request.status.certificate:
        return False
    failed = any(
        condition.type == FAILED and condition.status in ("", "True") for condition in request.status.conditions
    )
    return has_condition(request, APPROVED) and not has_condition(request, DENIED) and not failed


def sign_or_fail(
    request: CertificateSigningRequest, authority: CertificateAuthority, now: float
) -> CertificateSigningRequest:
    """Return a copy with the certificate, or with a Failed condition if the signer rejects the request."""
    csr, spec, result = read(request), request.spec, copy_of(request)
    if error := SIGNERS[spec.signerName](parse_requested_certificate(csr), spec.usages):
        condition = CertificateSigningRequestCondition(
            type=FAILED,
            status="True",
            reason="SignerValidationFailure",
            message=error,
            lastUpdateTime=times.format_time(now),
        )
        result.status.conditions.append(condition)
    else:
        result.status.certificate = authority.sign(csr, spec.usages, spec.expirationSeconds, now)
    return result


class CsrSigningController:
    name = "certificatesigningrequest-signing-controller"

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        clock: Clock,
        authorities: Mapping[str, CertificateAuthority],
    ) -> None:
        """Create the controller; `authorities` maps signer names to CAs."""
        self._requests, self._clock = client.for_kind(CertificateSigningRequest), clock
        self._known = informers.for_kind(CertificateSigningRequest).lister
        self._authorities = authorities
        self.watches = (Watch(resource_of(CertificateSigningRequest), lambda request: (key_of(request),)),)

    async def reconcile(self, key: NamespacedName) -> None:
        request = self._known.get_by_key(key)
        if request is None or not is_due(request):
            return
        authority = self._authorities.get(request.spec.signerName)
        if authority is None:
            return
        try:
            await self._requests.update_status(sign_or_fail(request, authority, self._clock.now()))
        except UnreadableRequest as error:
            log.warning("not signing certificate signing request %s: %s", key.name, error)
        except errors.NotFound:
            return


def authorities_of(config: ControllerConfig) -> dict[str, CertificateAuthority]:
    pair, max_s = (
        (config.cluster_signing_cert_file, config.cluster_signing_key_file),
        config.cluster_signing_duration_s,
    )
    files = config.cluster_signing_files or (dict.fromkeys(SIGNERS, pair) if all(pair) else {})
    return {signer: CertificateAuthority(Path(cert), Path(key), max_s) for signer, (cert, key) in files.items()}


def make(context: ControllerContext) -> CsrSigningController | None:
    authorities = authorities_of(context.config)
    return context.build(CsrSigningController, authorities=authorities) if authorities else None
