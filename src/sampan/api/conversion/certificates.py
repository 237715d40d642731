"""certificates.k8s.io: PodCertificateRequests of v1beta1 can have a public key and a proof of possession instead of a
certificate signing request."""

from typing import Any

DROPPED = ("pkixPublicKey", "proofOfPossession")
"""The fields of the specification that v1 does not have."""


def request_to_v1(request: dict[str, Any]) -> dict[str, Any]:
    spec = request.get("spec")
    if not isinstance(spec, dict):
        return request
    return {**request, "spec": {key: value for key, value in spec.items() if key not in DROPPED}}
