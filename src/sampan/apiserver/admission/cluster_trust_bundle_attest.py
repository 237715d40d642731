"""ClusterTrustBundleAttest: publishing the trust bundle of a signer requires permission for that signer."""

from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.lookup import is_authorized_for_signer

_FOR_GARBAGE_COLLECTION = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


class ClusterTrustBundleAttest:
    name = "ClusterTrustBundleAttest"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_bundle = resource.plural == "clustertrustbundles" and resource.group == "certificates.k8s.io"
        return is_bundle and operation in ("CREATE", "UPDATE") and not subresource

    async def validate(self, attributes: AdmissionAttributes) -> None:
        signer = attributes.obj.spec.signerName
        if signer in ("", None, msgspec.UNSET):
            return
        if attributes.old is not None and _content(attributes.old) == _content(attributes.obj):
            return
        if not await is_authorized_for_signer(attributes, "attest", signer):
            raise attributes.forbidden(f"user not permitted to attest for signerName {gotext.quote(signer)}")


def _content(bundle: Any) -> Any:
    value = json.to_value(bundle)
    meta = {key: part for key, part in value["metadata"].items() if key not in _FOR_GARBAGE_COLLECTION}
    return {**value, "metadata": meta}
