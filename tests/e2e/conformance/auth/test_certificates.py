"""The conformance test of sig-auth for certificate signing requests. The first paragraph of the docstring is the
official test name."""

import base64
from typing import Any

from sampan.testing import Cluster
from tests.controllers.security.requests import pem
from tests.e2e.conformance.api import Api
from tests.e2e.conformance.operations import check_api_operations, check_subresource

GROUP = "certificates.k8s.io"


def condition(type: str) -> dict[str, Any]:
    return {"type": type, "status": "True", "reason": "E2E", "message": "Set from an e2e test"}


def test_csr_api(api: Api, sampan_cluster: Cluster) -> None:
    """[sig-auth] Certificates API [Privileged:ClusterAdmin] should support CSR API operations [Conformance]"""
    signer = f"example.com/e2e-{api.namespace}"
    spec = {
        "request": base64.b64encode(pem("e2e.example.com", names=["e2e.example.com"])).decode(),
        "signerName": signer,
        "expirationSeconds": 3600,
        "usages": ["digital signature", "key encipherment", "server auth"],
    }
    requests = check_api_operations(
        api, GROUP, "certificatesigningrequests", subresources=("approval", "status"), spec=spec
    )
    name = f"{api.namespace}-parts"
    request = requests.create(name, spec=spec)
    assert request["spec"]["expirationSeconds"] == 3600
    assert [
        request["metadata"]["name"] for request in requests.list_all(fieldSelector=f"spec.signerName={signer}")
    ] == [name]

    patch = {"conditions": [condition("ApprovalPatch")]}
    obj = check_subresource(
        requests, name, "approval", patch, lambda status: status["conditions"].append(condition("Approved"))
    )
    assert [condition["type"] for condition in obj["status"]["conditions"]] == ["ApprovalPatch", "Approved"]

    certificate = base64.b64encode(sampan_cluster.ca.read_bytes()).decode()
    obj = check_subresource(
        requests,
        name,
        "status",
        {"certificate": certificate},
        lambda status: status["conditions"].append(condition("StatusUpdate")),
    )
    assert obj["status"]["certificate"] == certificate
    assert [condition["type"] for condition in obj["status"]["conditions"]] == [
        "ApprovalPatch",
        "Approved",
        "StatusUpdate",
    ]
    requests.delete(name)
    assert requests.is_gone(name)
