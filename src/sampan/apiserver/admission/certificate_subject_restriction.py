"""CertificateSubjectRestriction: rejects requests for client certificates of the group system:masters."""

from sampan.api.resources.resource import Resource
from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.registry.certificate_rules import parse_request
from sampan.apiserver.request.call import MASTERS

_SIGNER = "kubernetes.io/kube-apiserver-client"


class CertificateSubjectRestriction:
    name = "CertificateSubjectRestriction"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_request = resource.plural == "certificatesigningrequests" and resource.group == "certificates.k8s.io"
        return is_request and operation == "CREATE" and not subresource

    async def validate(self, attributes: AdmissionAttributes) -> None:
        request: CertificateSigningRequest = attributes.obj
        if request.spec.signerName == _SIGNER and MASTERS in organizations_of(request):
            raise attributes.forbidden(f"use of {_SIGNER} signer with system:masters group is not allowed")


def organizations_of(request: CertificateSigningRequest) -> list[str]:
    """Return the organizations of the requested subject. The request has been validated before."""
    from sampan.machinery.pki.certificates import subject_organizations

    return subject_organizations(parse_request(request.spec.request or b"").subject)
