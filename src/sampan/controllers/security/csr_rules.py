"""The requirements of the built-in signers (`kubernetes.io/...`) on certificate signing requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampan.api.types.certificates_v1 import CertificateSigningRequest

if TYPE_CHECKING:
    from cryptography import x509

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY = "kubernetes.io/legacy-unknown"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_NODE, _NODES = "system:node:", "system:nodes"
_ENCIPHERMENT, _SIGNATURE, _CLIENT, _SERVER = "key encipherment", "digital signature", "client auth", "server auth"


class UnreadableRequest(ValueError):
    """`spec.request` is not a valid PKCS #10 request."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The subject and the subject alternative names of a request."""

    name: str
    organizations: Sequence[str]
    dns_names: Sequence[str]
    addresses: Sequence[str]
    emails: Sequence[str]
    uris: Sequence[str]


def read(request: CertificateSigningRequest) -> x509.CertificateSigningRequest:
    """Parse `spec.request` with the function that validation and admission use, so that what they checked is signed."""
    from sampan.machinery.certificates import BadSigningRequest, parse_signing_request

    try:
        return parse_signing_request(request.spec.request or b"")
    except BadSigningRequest as error:
        raise UnreadableRequest(f"unable to parse csr {request.metadata.name!r}: {error}") from None


def asked_of(csr: x509.CertificateSigningRequest) -> Asked:
    from cryptography import x509

    from sampan.machinery.certificates import subject_common_name, subject_organizations

    try:
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    return Asked(
        name=subject_common_name(csr.subject),
        organizations=subject_organizations(csr.subject),
        dns_names=names.get_values_for_type(x509.DNSName),
        addresses=[str(address) for address in names.get_values_for_type(x509.IPAddress)],
        emails=names.get_values_for_type(x509.RFC822Name),
        uris=names.get_values_for_type(x509.UniformResourceIdentifier),
    )


def has(request: CertificateSigningRequest, kind: str) -> bool:
    return any(condition.type == kind for condition in request.status.conditions)


def client_fault(asked: Asked, usages: Sequence[str]) -> str:
    """Return the problem with a request for a client certificate of the API server, or an empty string."""
    for usage in usages:
        if usage not in (_SIGNATURE, _ENCIPHERMENT, _CLIENT):
            return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT in usages else f"missing required usage for client certificate: {_CLIENT}"


def kubelet_client_fault(asked: Asked, usages: Sequence[str]) -> str:
    if list(asked.organizations) != [_NODES]:
        return "subject organization is not system:nodes"
    for kind, names in (
        ("DNS", asked.dns_names),
        ("Email", asked.emails),
        ("IP", asked.addresses),
        ("URI", asked.uris),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    if not asked.name.startswith(_NODE):
        return "subject common name does not begin with system:node:"
    return _usages_fault(usages, _CLIENT)


def kubelet_serving_fault(asked: Asked, usages: Sequence[str]) -> str:
    if list(asked.organizations) != [_NODES]:
        return "subject organization is not system:nodes"
    if not asked.dns_names and not asked.addresses:
        return "DNS or IP subjectAltName is required"
    if asked.emails:
        return "Email subjectAltNames are not allowed"
    if asked.uris:
        return "URI subjectAltNames are not allowed"
    if error := _usages_fault(usages, _SERVER):
        return error
    return "" if asked.name.startswith(_NODE) else "subject common name does not begin with system:node:"


def _usages_fault(usages: Sequence[str], wanted: str) -> str:
    """Return a message if the usages are not those required. Key encipherment is optional: only RSA keys need it."""
    full = {_SIGNATURE, _ENCIPHERMENT, wanted}
    if set(usages) in (full, full - {_ENCIPHERMENT}):
        return ""
    return f"usages did not match [{' '.join(sorted(full))}]"


def no_fault(asked: Asked, usages: Sequence[str]) -> str:
    return ""


SIGNERS: dict[str, Callable[[Asked, Sequence[str]], str]] = {
    CLIENT: client_fault,
    KUBELET_CLIENT: kubelet_client_fault,
    KUBELET_SERVING: kubelet_serving_fault,
    LEGACY: no_fault,
}
"""The validation function of each signer, which returns the problem with a request, or an empty string."""
