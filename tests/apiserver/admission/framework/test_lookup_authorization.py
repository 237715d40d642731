"""Plug-ins that ask for rights besides that to the write itself: on a whole server with RBAC."""

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
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.clock import VirtualClock
from sampan.storage.memory import MemoryBackend
from tests.eventually import eventually

JOE = UserInfo("joe", groups=(AUTHENTICATED,))
_PARTS = [f"certificatesigningrequests/{part}" for part in ("approval", "status")]
CSRS = {"apiGroups": ["certificates.k8s.io"], "resources": _PARTS, "verbs": ["*"]}
_KNOWN = {"apiGroups": ["example.com"], "resources": ["known"], "verbs": ["get"]}
"""Allowed as soon as the server knows Joe's rights."""


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


def on_a_server(rules: list[dict[str, Any]], work: Callable[[Client, Client], Awaitable[None]], *enabled: str) -> None:
    """`work` gets clients of an administrator and of Joe, who has these rights."""

    async def main() -> None:
        clock = VirtualClock()
        config = ServerConfig(secure_port=0, advertise_address="192.0.2.1", enabled_admission_plugins=enabled)
        async with (
            asyncio.timeout(60),
            MemoryBackend(clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
        ):
            admin = Client(transport=server.loopback(), clock=clock, component="test")
            role = {"metadata": {"name": "joe"}, "rules": [*rules, _KNOWN]}
            await admin.of(ClusterRole).create(codec.from_value(role, ClusterRole))
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "joe"}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}
            binding = {"metadata": {"name": "joe"}, "roleRef": ref, "subjects": [subject]}
            await admin.of(ClusterRoleBinding).create(codec.from_value(binding, ClusterRoleBinding))
            await _known(server)
            await work(admin, Client(transport=server.loopback(JOE), clock=clock, component="test"))

    asyncio.run(main())


async def _known(server: ApiServer) -> None:
    attributes = Attributes(JOE, "get", "", "example.com", "v1", "known")
    await eventually(lambda: server.security.authorizer.is_allowed(attributes))


def approval(verb: str, name: str) -> dict[str, Any]:
    return {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb], "resourceNames": [name]}


APPROVED = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}}
FAILED = {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "x"}]}}


@pytest.mark.parametrize(("verb", "part", "change"), [("approve", "approval", APPROVED), ("sign", "status", FAILED)])
@pytest.mark.parametrize(
    ("granted", "allowed"), [("example.com/a", True), ("example.com/*", True), ("example.com/b", False)]
)
def test_approval_needs_permission_for_the_signer(
    verb: str, part: str, change: dict[str, Any], granted: str, allowed: bool
) -> None:
    async def work(admin: Client, joe: Client) -> None:
        await admin.of(CertificateSigningRequest).create(signing_request("team", "example.com/a"))
        requests = joe.of(CertificateSigningRequest)
        if allowed:
            await requests.patch("r", change, subresource=part)
            return
        text = f'user not permitted to {verb} requests with signerName "example.com/a"'
        with pytest.raises(errors.Forbidden, match=text):
            await requests.patch("r", change, subresource=part)

    on_a_server([CSRS, approval(verb, granted)], work)


def test_nobody_becomes_a_master_by_certificate() -> None:
    async def work(admin: Client, joe: Client) -> None:
        requests, signer = admin.of(CertificateSigningRequest), "kubernetes.io/kube-apiserver-client"
        with pytest.raises(errors.Forbidden, match=f"use of {signer} signer with system:masters group is not allowed"):
            await requests.create(signing_request("system:masters", signer))
        await requests.create(signing_request("team", signer))

    on_a_server([], work)


MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch"]}


def owned(name: str, blocks: bool) -> ConfigMap:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "blockOwnerDeletion": blocks}
    value = {"metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]}}
    return codec.from_value(value, ConfigMap)


def test_owner_references_need_permission_for_the_owner() -> None:
    async def work(admin: Client, joe: Client) -> None:
        maps = joe.of(ConfigMap)
        await maps.create(owned("a", False))
        with pytest.raises(errors.Forbidden, match="refers to a resource you can't set finalizers on"):
            await maps.create(owned("b", True))
        with pytest.raises(errors.Forbidden, match="cannot set an ownerRef on a resource you can't delete"):
            await maps.patch("a", {"metadata": {"ownerReferences": None}}, "default")
        await admin.of(ConfigMap).create(owned("b", True))

    on_a_server([MAPS], work, "OwnerReferencesPermissionEnforcement")
