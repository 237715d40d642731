"""certificatesigningrequest-approving-controller, which approves kubelet certificates for authorized requesters."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from sampan.api.types.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from sampan.controllers.descriptor import Parts
from sampan.controllers.security.csr_rules import (
    APPROVED,
    DENIED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    SIGNERS,
    Asked,
    UnreadableRequest,
    asked_of,
    has,
    read,
)
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import Key, key_of

log = logging.getLogger(__name__)

GROUP, RESOURCE = "certificates.k8s.io", "certificatesigningrequests"


class Recognized(NamedTuple):
    subresource: str
    """The subresource whose create permission authorizes approval of such a request."""
    message: str


_OWN = Recognized("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_ANY = Recognized("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")
_OWN_SERVER = Recognized("selfnodeserver", "Auto approving self kubelet server certificate after SubjectAccessReview.")
_ANY_SERVER = Recognized("nodeserver", "Auto approving kubelet server certificate after SubjectAccessReview.")
"""Kubernetes does not approve kubelet serving certificates. This controller approves those without IP addresses whose
only DNS name is the one that `kubelet_server_name` derives from the node, if RBAC allows it; `sampan up` creates such
roles.
"""


def is_open(request: CertificateSigningRequest) -> bool:
    return not (request.status.certificate or has(request, APPROVED) or has(request, DENIED))


def recognized(request: CertificateSigningRequest, asked: Asked) -> Iterator[Recognized]:
    spec = request.spec
    if spec.signerName == KUBELET_CLIENT:
        own, other = _OWN, _ANY
    elif spec.signerName == KUBELET_SERVING and _names_no_address(asked):
        own, other = _OWN_SERVER, _ANY_SERVER
    else:
        return
    if SIGNERS[spec.signerName](asked, spec.usages):
        return
    if spec.username == asked.name:
        yield own
    yield other


def _names_no_address(asked: Asked) -> bool:
    from sampan.machinery.certificates import kubelet_server_name

    node = asked.name.removeprefix("system:node:")
    return not asked.addresses and list(asked.dns_names) == [kubelet_server_name(node)]


def approved(request: CertificateSigningRequest, message: str) -> CertificateSigningRequest:
    result = copy_of(request)
    condition = CertificateSigningRequestCondition(type=APPROVED, status="True", reason="AutoApproved", message=message)
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
    watches = (Watch(resource_of(CertificateSigningRequest), lambda request: (key_of(request),)),)

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._requests, self._reviews = client.of(CertificateSigningRequest), client.of(SubjectAccessReview)
        self._known = informers.of(CertificateSigningRequest).lister

    async def reconcile(self, key: Key) -> None:
        request = self._known.by_key(key)
        if request is None or not is_open(request):
            return
        try:
            subject = asked_of(read(request))
        except UnreadableRequest as error:
            log.warning("not approving certificate signing request %s: %s", key.name, error)
            return
        tried = []
        for way in recognized(request, subject):
            tried.append(way.subresource)
            if await self._is_allowed(request, way):
                await self._approve(request, way.message)
                return
        if tried:
            log.info(
                "CertificateSigningRequest %s matches %s, but its requester is not authorized for it", key.name, tried
            )

    async def _is_allowed(self, request: CertificateSigningRequest, way: Recognized) -> bool:
        review = await self._reviews.create(review_of(request, way.subresource))
        return bool(review.status.allowed)

    async def _approve(self, request: CertificateSigningRequest, message: str) -> None:
        try:
            await self._requests.update(approved(request, message), subresource="approval")
        except errors.NotFound:
            return
        except errors.Forbidden as error:
            log.warning("cannot approve certificate signing request %s: %s", request.metadata.name, error)


def make(parts: Parts) -> CsrApprovingController:
    return CsrApprovingController(client=parts.client_for(CsrApprovingController.name), informers=parts.informers)
