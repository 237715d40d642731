"""Certificate signing requests as clients create them, and the controllers that work on them."""

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from sampan.api.types.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.security.csr_approver import APPROVED, CsrApprovingController
from sampan.controllers.security.csr_cleaner import CsrCleanerController
from sampan.controllers.security.csr_signer import CsrSigningController
from sampan.machinery.copies import copy_of
from sampan.machinery.pki.certificates import make_ca
from tests.controllers.cluster import Cluster

CLIENT_USAGES = ("digital signature", "client auth")
KEY = ec.generate_private_key(ec.SECP256R1())


def pem(name: str, *organizations: str, names: Sequence[str] = ()) -> bytes:
    """A PEM request; `names` are DNS names, addresses, mail addresses (with an @) or URIs (with a :)."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


def _name(text: str) -> x509.GeneralName:
    if "@" in text:
        return x509.RFC822Name(text)
    if ":" in text:
        return x509.UniformResourceIdentifier(text)
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def request(
    content: bytes, signer: str, *usages: str, name: str = "csr", expires_s: int | None = None
) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=content, signerName=signer, usages=list(usages), expirationSeconds=expires_s
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


def condition(kind: str, updated: str | None = None) -> CertificateSigningRequestCondition:
    return CertificateSigningRequestCondition(type=kind, status="True", reason="Test", lastUpdateTime=updated)


APPROVING, SIGNING, CLEANER = CsrApprovingController.name, CsrSigningController.name, CsrCleanerController.name


def config(directory: Path, c: Cluster) -> ControllerConfig:
    ca = make_ca("test", now=c.clock.now())
    (directory / "ca.crt").write_bytes(ca.certificate)
    (directory / "ca.key").write_bytes(ca.key)
    return ControllerConfig(
        cluster_signing_cert_file=str(directory / "ca.crt"), cluster_signing_key_file=str(directory / "ca.key")
    )


async def approve(c: Cluster, name: str = "csr", kind: str = APPROVED) -> None:
    requests = c.client.for_kind(CertificateSigningRequest)
    request = copy_of(await requests.get(name))
    request.status.conditions.append(condition(kind))
    await requests.update(request, subresource="approval")
    await c.clock.settle()
