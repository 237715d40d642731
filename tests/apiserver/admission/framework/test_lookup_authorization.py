"""Admission plugins that require permissions besides the one for the write itself, on a server with RBAC."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.rbac_v1 import ClusterRole, ClusterRoleBinding
from sampan.apiserver.authz.authorizer import Attributes
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.apiserver.server import ApiServer
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.storage.memory import MemoryBackend
from tests.eventually import eventually

JOE = UserInfo("joe", groups=(AUTHENTICATED,))
_SUBRESOURCES = [f"certificatesigningrequests/{part}" for part in ("approval", "status")]
CSR_RULE = {"apiGroups": ["certificates.k8s.io"], "resources": _SUBRESOURCES, "verbs": ["*"]}
_PROBE_RULE = {"apiGroups": ["example.com"], "resources": ["known"], "verbs": ["get"]}
"""A rule on which tests wait: once it is in effect, all permissions of Joe are."""


def signing_request(organization: str, signer: str) -> CertificateSigningRequest:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    obj = codec.from_value(
        {"metadata": {"name": "r"}, "spec": {"signerName": signer, "usages": ["client auth"]}},
        CertificateSigningRequest,
    )
    obj.spec.request = request.public_bytes(Encoding.PEM)
    return obj


def run_with_rbac(
    rules: list[dict[str, Any]], work: Callable[[Client, Client], Awaitable[None]], *enabled: str
) -> None:
    """Run `work` with a client of an administrator and one of Joe, whose role has these rules."""

    async def main() -> None:
        clock = VirtualClock()
        config = ServerConfig(secure_port=0, advertise_address="192.0.2.1", enabled_admission_plugins=enabled)
        async with (
            asyncio.timeout(60),
            MemoryBackend(clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
        ):
            admin = Client(transport=server.loopback(), clock=clock, component="test")
            role = {"metadata": {"name": "joe"}, "rules": [*rules, _PROBE_RULE]}
            await admin.for_kind(ClusterRole).create(codec.from_value(role, ClusterRole))
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "joe"}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}
            binding = {"metadata": {"name": "joe"}, "roleRef": ref, "subjects": [subject]}
            await admin.for_kind(ClusterRoleBinding).create(codec.from_value(binding, ClusterRoleBinding))
            await _wait_for_permissions(server)
            await work(admin, Client(transport=server.loopback(JOE), clock=clock, component="test"))

    asyncio.run(main())


async def _wait_for_permissions(server: ApiServer) -> None:
    attributes = Attributes(JOE, "get", "", "example.com", "v1", "known")
    await eventually(lambda: server.security.authorizer.is_allowed(attributes))


def signer_rule(verb: str, name: str) -> dict[str, Any]:
    return {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb], "resourceNames": [name]}


APPROVED = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}}
FAILED = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "x"}]}}


@pytest.mark.parametrize(("verb", "part", "change"), [("approve", "approval", APPROVED), ("sign", "status", FAILED)])
@pytest.mark.parametrize(
    ("granted", "allowed"), [("example.com/a", True), ("example.com/*", True), ("example.com/b", False)]
)
def test_approving_and_signing_require_permission_for_the_signer(
    verb: str, part: str, change: dict[str, Any], granted: str, allowed: bool
) -> None:
    async def work(admin: Client, joe: Client) -> None:
        await admin.for_kind(CertificateSigningRequest).create(signing_request("team", "example.com/a"))
        requests = joe.for_kind(CertificateSigningRequest)
        if allowed:
            await requests.patch("r", change, subresource=part)
            return
        text = f'user not permitted to {verb} requests with signerName "example.com/a"'
        with pytest.raises(errors.Forbidden, match=text):
            await requests.patch("r", change, subresource=part)

    run_with_rbac([CSR_RULE, signer_rule(verb, granted)], work)


def test_certificate_request_for_system_masters_group_is_rejected() -> None:
    async def work(admin: Client, joe: Client) -> None:
        requests, signer = admin.for_kind(CertificateSigningRequest), "kubernetes.io/kube-apiserver-client"
        with pytest.raises(errors.Forbidden, match=f"use of {signer} signer with system:masters group is not allowed"):
            await requests.create(signing_request("system:masters", signer))
        await requests.create(signing_request("team", signer))

    run_with_rbac([], work)


CONFIG_MAP_RULE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch"]}


def owned_config_map(name: str, blocks: bool) -> ConfigMap:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "blockOwnerDeletion": blocks}
    value = {"metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]}}
    return codec.from_value(value, ConfigMap)


def test_owner_references_need_permission_for_the_owner() -> None:
    async def work(admin: Client, joe: Client) -> None:
        maps = joe.for_kind(ConfigMap)
        await maps.create(owned_config_map("a", False))
        with pytest.raises(errors.Forbidden, match="refers to a resource you can't set finalizers on"):
            await maps.create(owned_config_map("b", True))
        with pytest.raises(errors.Forbidden, match="cannot set an ownerRef on a resource you can't delete"):
            await maps.patch("a", {"metadata": {"ownerReferences": None}}, "default")
        await admin.for_kind(ConfigMap).create(owned_config_map("b", True))

    run_with_rbac([CONFIG_MAP_RULE], work, "OwnerReferencesPermissionEnforcement")
