"""CertificateSigning: setting the certificate or conditions of a CertificateSigningRequest requires permission for its
signer."""

from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.lookup import is_authorized_for_signer


class CertificateSigning:
    name = "CertificateSigning"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_request = resource.plural == "certificatesigningrequests" and resource.group == "certificates.k8s.io"
        return is_request and operation == "UPDATE" and subresource == "status"

    async def validate(self, attributes: AdmissionAttributes) -> None:
        old: CertificateSigningRequest = attributes.old
        new: CertificateSigningRequest = attributes.obj
        if (old.status.certificate, old.status.conditions) == (new.status.certificate, new.status.conditions):
            return
        signer = old.spec.signerName
        if not await is_authorized_for_signer(attributes, "sign", signer):
            raise attributes.forbidden(f"user not permitted to sign requests with signerName {gotext.quote(signer)}")
