"""CertificateApproval: approving or denying a CertificateSigningRequest requires permission for its signer."""

from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.lookup import is_authorized_for_signer


class CertificateApproval:
    name = "CertificateApproval"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_request = resource.plural == "certificatesigningrequests" and resource.group == "certificates.k8s.io"
        return is_request and operation == "UPDATE" and subresource == "approval"

    async def validate(self, attributes: AdmissionAttributes) -> None:
        request: CertificateSigningRequest = attributes.old
        signer = request.spec.signerName
        if not await is_authorized_for_signer(attributes, "approve", signer):
            why = f"user not permitted to approve requests with signerName {gotext.quote(signer)}"
            raise attributes.forbidden(why)
