"""A cluster's CA and the certificates that it signs, as PEM. No file I/O: callers store the results."""

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sampan.api import limits
from sampan.machinery.pki import pem

_BACKDATED = timedelta(minutes=5)
"""Certificates are valid from five minutes ago, because the clocks of machines differ a little."""


KUBELET_DOMAIN = "kubelet.sampan.internal"


def kubelet_server_name(node: str) -> str:
    """Return the only DNS name that a cluster approves automatically in a kubelet's serving certificate.

    The name does not resolve to any address, so a node cannot use the certificate to impersonate another server. The
    API server of `sampan up` identifies kubelets by the common name.
    """
    return f"{node}.{KUBELET_DOMAIN}"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRequest:
    """The subject, alternative names and key usages of a certificate to be issued."""

    common_name: str
    organizations: Sequence[str] = ()
    dns_names: Sequence[str] = ()
    addresses: Sequence[str] = ()
    is_server: bool = False
    is_client: bool = False


def make_ca(common_name: str, *, now: float, days: int = 3650, key: bytes | None = None) -> KeyPair:
    """Return a self-signed CA with a new key, or with `key`, the key of a CA of the same name that is being renewed."""
    signing = _load_key(key) if key is not None else ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name, ())
    usage = _key_usage(signs_certificates=True)
    certificate = (
        _builder(name, name, signing.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(signing.public_key()), critical=False)
        .sign(signing, hashes.SHA256())
    )
    return KeyPair(_pem(certificate), _key_pem(signing))


def issue(ca: KeyPair, request: SigningRequest, *, now: float, days: int = 365) -> KeyPair:
    """Return a new private key with a certificate signed by the CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, issuer_key = x509.load_pem_x509_certificate(ca.certificate), _load_key(ca.key)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] * request.is_server + [ExtendedKeyUsageOID.CLIENT_AUTH] * request.is_client
    subject = _name(request.common_name, request.organizations)
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names := _alternatives(request):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return KeyPair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def make_key() -> KeyPair:
    """Return a key pair for signing service account tokens; `certificate` holds the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, _key_pem(key))


def make_request(key: bytes, request: SigningRequest) -> bytes:
    """Return a certificate signing request as PEM."""
    subject = _name(request.common_name, request.organizations)
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names := _alternatives(request):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(_load_key(key), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def life(certificate: bytes) -> tuple[float, float]:
    """Return the notBefore and notAfter times of a PEM certificate, in seconds since the epoch."""
    parsed = x509.load_pem_x509_certificate(certificate)
    return parsed.not_valid_before_utc.timestamp(), parsed.not_valid_after_utc.timestamp()


def common_name(certificate: bytes) -> str:
    """Return the common name of a PEM certificate's subject, "" if it has none."""
    return subject_common_name(x509.load_pem_x509_certificate(certificate).subject)


def public_key_hash(certificate: bytes) -> str:
    """Return `sha256:HEX`, the hash of a PEM certificate's public key, with which kubeadm pins a CA. It stays the same
    when the certificate is renewed with its key."""
    public_key = x509.load_pem_x509_certificate(certificate).public_key()
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return f"sha256:{hashlib.sha256(public_key.public_bytes(encoding, form)).hexdigest()}"


def subject_common_name(subject: x509.Name) -> str:
    """Return the common name of a subject: the last one if there are several, as in Go's `pkix.Name`."""
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""


def subject_organizations(subject: x509.Name) -> list[str]:
    return [str(part.value) for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


class BadSigningRequest(ValueError):
    """The text is not one well-formed signing request. The message is that of kube-apiserver where kube-apiserver has
    one."""


def parse_signing_request(text: bytes) -> x509.CertificateSigningRequest:
    """Parse the PEM of a signing request. Validation, admission, approval and signing must all use this function. Text
    around the block is allowed, as in kube-apiserver, but only one block of any type: another parser could take a
    second block for the request, and approvers would then see a request other than the one that is signed."""
    if len(text) > limits.SIGNING_REQUEST_BYTES:
        raise BadSigningRequest(f"must not be larger than {limits.SIGNING_REQUEST_BYTES} bytes")
    block = next(pem.read_blocks(text), None)
    if block is None or block.type != pem.CERTIFICATE_REQUEST:
        raise BadSigningRequest(f"PEM block type must be {pem.CERTIFICATE_REQUEST}")
    if pem.count_markers(text) > 1:
        raise BadSigningRequest("must contain exactly one PEM block")
    try:
        request = x509.load_der_x509_csr(block.content)
        _ = request.subject, request.extensions
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm):
        raise BadSigningRequest("asn1: structure error: malformed certificate request") from None
    return request


def expiry(certificate: bytes) -> float:
    """Return the notAfter time of a PEM certificate, in seconds since the epoch."""
    return life(certificate)[1]


def covers(certificate: bytes, request: SigningRequest) -> bool:
    """Whether the certificate's subject alternative names include all names and addresses of the request."""
    try:
        extension = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return not (request.dns_names or request.addresses)
    names = set(extension.value.get_values_for_type(x509.DNSName))
    addresses = {str(address) for address in extension.value.get_values_for_type(x509.IPAddress)}
    return set(request.dns_names) <= names and set(request.addresses) <= addresses


def _alternatives(request: SigningRequest) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in request.dns_names]
    return names + [x509.IPAddress(ipaddress.ip_address(address)) for address in request.addresses]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, days: int
) -> x509.CertificateBuilder:
    begin = datetime.fromtimestamp(now, UTC) - _BACKDATED
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode a key as SEC 1 ("EC PRIVATE KEY"), like kubeadm and client-go. The Java client fabric8 cannot read
    elliptic curve keys in PKCS #8."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key of the CA is not an elliptic curve key")
    return key
