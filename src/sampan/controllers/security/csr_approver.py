"""certificatesigningrequest-approving-controller, which approves kubelet certificates for authorized requesters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sampan.api.types.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from sampan.controllers.security.bootstrap_tokens import OneUseTokens, is_for_one_use
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

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
class RequestedCertificate:
    """The subject and the subject alternative names of a request."""

    name: str
    organizations: Sequence[str]
    dns_names: Sequence[str]
    addresses: Sequence[str]
    emails: Sequence[str]
    uris: Sequence[str]


def read(request: CertificateSigningRequest) -> x509.CertificateSigningRequest:
    """Parse `spec.request` with the same function as validation and admission, so that the request that they checked is
    the one that is signed."""
    from sampan.machinery.pki.certificates import BadSigningRequest, parse_signing_request

    try:
        return parse_signing_request(request.spec.request or b"")
    except BadSigningRequest as error:
        raise UnreadableRequest(f"unable to parse csr {request.metadata.name!r}: {error}") from None


def parse_requested_certificate(csr: x509.CertificateSigningRequest) -> RequestedCertificate:
    from cryptography import x509

    from sampan.machinery.pki.certificates import subject_common_name, subject_organizations

    try:
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    return RequestedCertificate(
        name=subject_common_name(csr.subject),
        organizations=subject_organizations(csr.subject),
        dns_names=names.get_values_for_type(x509.DNSName),
        addresses=[str(address) for address in names.get_values_for_type(x509.IPAddress)],
        emails=names.get_values_for_type(x509.RFC822Name),
        uris=names.get_values_for_type(x509.UniformResourceIdentifier),
    )


def has_condition(request: CertificateSigningRequest, kind: str) -> bool:
    return any(condition.type == kind for condition in request.status.conditions)


def client_error(requested: RequestedCertificate, usages: Sequence[str]) -> str:
    """Return the problem with a request for a client certificate of the API server, or an empty string."""
    for usage in usages:
        if usage not in (_SIGNATURE, _ENCIPHERMENT, _CLIENT):
            return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT in usages else f"missing required usage for client certificate: {_CLIENT}"


def kubelet_client_error(requested: RequestedCertificate, usages: Sequence[str]) -> str:
    if list(requested.organizations) != [_NODES]:
        return "subject organization is not system:nodes"
    for kind, names in (
        ("DNS", requested.dns_names),
        ("Email", requested.emails),
        ("IP", requested.addresses),
        ("URI", requested.uris),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    if not requested.name.startswith(_NODE):
        return "subject common name does not begin with system:node:"
    return _usages_error(usages, _CLIENT)


def kubelet_serving_error(requested: RequestedCertificate, usages: Sequence[str]) -> str:
    if list(requested.organizations) != [_NODES]:
        return "subject organization is not system:nodes"
    if not requested.dns_names and not requested.addresses:
        return "DNS or IP subjectAltName is required"
    if requested.emails:
        return "Email subjectAltNames are not allowed"
    if requested.uris:
        return "URI subjectAltNames are not allowed"
    if error := _usages_error(usages, _SERVER):
        return error
    return "" if requested.name.startswith(_NODE) else "subject common name does not begin with system:node:"


def _usages_error(usages: Sequence[str], required: str) -> str:
    """Return a message if the usages are not those required. Key encipherment is optional: only RSA keys need it."""
    full = {_SIGNATURE, _ENCIPHERMENT, required}
    if set(usages) in (full, full - {_ENCIPHERMENT}):
        return ""
    return f"usages did not match [{' '.join(sorted(full))}]"


def no_error(requested: RequestedCertificate, usages: Sequence[str]) -> str:
    return ""


SIGNERS: dict[str, Callable[[RequestedCertificate, Sequence[str]], str]] = {
    CLIENT: client_error,
    KUBELET_CLIENT: kubelet_client_error,
    KUBELET_SERVING: kubelet_serving_error,
    LEGACY: no_error,
}
"""The validation function of each signer, which returns the problem with a request, or an empty string."""


log = logging.getLogger(__name__)

GROUP, RESOURCE = "certificates.k8s.io", "certificatesigningrequests"


class Recognizer(NamedTuple):
    subresource: str
    """The subresource whose create permission authorizes approval of such a request."""
    message: str


_SELF_NODE_CLIENT = Recognizer(
    "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."
)
_NODE_CLIENT = Recognizer("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")
_SELF_NODE_SERVER = Recognizer(
    "selfnodeserver", "Auto approving self kubelet server certificate after SubjectAccessReview."
)
_NODE_SERVER = Recognizer("nodeserver", "Auto approving kubelet server certificate after SubjectAccessReview.")
"""The recognizer for serving certificates of kubelets.

Kubernetes does not approve such certificates. This controller approves a request without IP addresses whose only DNS
name is the one that `kubelet_server_name` derives from the node, if RBAC allows it. `sampan up` creates roles that do.
"""


def is_open(request: CertificateSigningRequest) -> bool:
    return not (request.status.certificate or has_condition(request, APPROVED) or has_condition(request, DENIED))


def find_recognizers(request: CertificateSigningRequest, requested: RequestedCertificate) -> Iterator[Recognizer]:
    spec = request.spec
    if spec.signerName == KUBELET_CLIENT:
        own, other = _SELF_NODE_CLIENT, _NODE_CLIENT
    elif spec.signerName == KUBELET_SERVING and _names_no_address(requested):
        own, other = _SELF_NODE_SERVER, _NODE_SERVER
    else:
        return
    if SIGNERS[spec.signerName](requested, spec.usages):
        return
    if spec.username == requested.name:
        yield own
    yield other


def _names_no_address(requested: RequestedCertificate) -> bool:
    from sampan.machinery.pki.certificates import kubelet_server_name

    node = requested.name.removeprefix("system:node:")
    return not requested.addresses and list(requested.dns_names) == [kubelet_server_name(node)]


def with_decision(
    request: CertificateSigningRequest, type: str, reason: str, message: str
) -> CertificateSigningRequest:
    """Return the request with a condition of the type Approved or Denied."""
    result = copy_of(request)
    condition = CertificateSigningRequestCondition(type=type, status="True", reason=reason, message=message)
    result.status.conditions.append(condition)
    return result


def review_of(request: CertificateSigningRequest, subresource: str) -> SubjectAccessReview:
    spec = request.spec
    attributes = ResourceAttributes(group=GROUP, resource=RESOURCE, verb="create", subresource=subresource, version="*")
    review = SubjectAccessReviewSpec(
        user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resourceAttributes=attributes
    )
    return SubjectAccessReview(spec=review)


class CsrApprovingController:
    name = "certificatesigningrequest-approving-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._one_use_tokens = OneUseTokens(client=client, clock=clock)
        self._requests, self._reviews = client.for_kind(CertificateSigningRequest), client.for_kind(SubjectAccessReview)
        self._known = informers.for_kind(CertificateSigningRequest).lister
        self.watches = (Watch(resource_of(CertificateSigningRequest), lambda request: (key_of(request),)),)

    async def reconcile(self, key: NamespacedName) -> None:
        request = self._known.get_by_key(key)
        if request is None or not is_open(request):
            return
        try:
            subject = parse_requested_certificate(read(request))
        except UnreadableRequest as error:
            log.warning("not approving certificate signing request %s: %s", key.name, error)
            return
        tried = []
        for way in find_recognizers(request, subject):
            tried.append(way.subresource)
            if await self._review_access(request, way):
                await self._decide(request, way.message)
                return
        if tried:
            log.info(
                "CertificateSigningRequest %s matches %s, but its requester is not authorized for it", key.name, tried
            )

    async def _review_access(self, request: CertificateSigningRequest, way: Recognizer) -> bool:
        """Return whether the requester may have such certificates approved, by a SubjectAccessReview."""
        review = await self._reviews.create(review_of(request, way.subresource))
        return bool(review.status.allowed)

    async def _decide(self, request: CertificateSigningRequest, message: str) -> None:
        """Approve the request, unless the requester used a one-use token that was already used for another request."""
        if is_for_one_use(request) and not await self._one_use_tokens.claim(request):
            message = "The bootstrap token is valid for one use, and has been used."
            decision = with_decision(request, DENIED, "TokenUsed", message)
        else:
            decision = with_decision(request, APPROVED, "AutoApproved", message)
        try:
            await self._requests.update(decision, subresource="approval")
        except errors.NotFound:
            return
        except errors.Forbidden as error:
            log.warning("cannot approve certificate signing request %s: %s", request.metadata.name, error)
