"""Which certificate signing requests are recognized and approved."""

from pathlib import Path

import pytest

from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.rbac_v1 import ClusterRoleBinding, RoleRef, Subject
from sampan.apiserver.request.call import UserInfo
from sampan.controllers.security.csr_approver import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY,
    SIGNERS,
    UnreadableRequest,
    parse_requested_certificate,
    read,
)
from sampan.machinery.client import Client
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.security.requests import APPROVING, CLIENT_USAGES, SIGNING, config, pem, request

NODE = ("system:node:n1", "system:nodes")
NODE_USER = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
BOOTSTRAP_USER = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated"))
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")


@pytest.mark.parametrize(
    ("signer", "content", "usages", "fault"),
    [
        (CLIENT, pem("ann", "team"), CLIENT_USAGES, ""),
        (CLIENT, pem("ann"), ("client auth",), ""),
        (CLIENT, pem("ann"), ("server auth", "client auth"), "invalid usage for client certificate: server auth"),
        (CLIENT, pem("ann"), ("digital signature",), "missing required usage for client certificate: client auth"),
        (KUBELET_CLIENT, pem(*NODE), CLIENT_USAGES, ""),
        (KUBELET_CLIENT, pem(*NODE), (*CLIENT_USAGES, "key encipherment"), ""),
        (KUBELET_CLIENT, pem(*NODE, "more"), CLIENT_USAGES, "subject organization is not system:nodes"),
        (KUBELET_CLIENT, pem(*NODE, names=["a.b"]), CLIENT_USAGES, "DNS subjectAltNames are not allowed"),
        (KUBELET_CLIENT, pem(*NODE, names=["10.0.0.1"]), CLIENT_USAGES, "IP subjectAltNames are not allowed"),
        (
            KUBELET_CLIENT,
            pem("ann", "system:nodes"),
            CLIENT_USAGES,
            "subject common name does not begin with system:node:",
        ),
        (
            KUBELET_CLIENT,
            pem(*NODE),
            ("client auth",),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (KUBELET_SERVING, pem(*NODE, names=["n1", "10.0.0.1"]), SERVING_USAGES, ""),
        (KUBELET_SERVING, pem(*NODE), SERVING_USAGES, "DNS or IP subjectAltName is required"),
        (KUBELET_SERVING, pem(*NODE, names=["n1", "a@b.c"]), SERVING_USAGES, "Email subjectAltNames are not allowed"),
        (
            KUBELET_SERVING,
            pem(*NODE, names=["n1", "spiffe://x"]),
            SERVING_USAGES,
            "URI subjectAltNames are not allowed",
        ),
        (
            KUBELET_SERVING,
            pem("n1", "system:nodes", names=["n1"]),
            SERVING_USAGES,
            "subject common name does not begin with system:node:",
        ),
        (LEGACY, pem("anybody"), ("cert sign",), ""),
    ],
)
def test_a_signer_accepts_only_its_subjects_names_and_usages(
    signer: str, content: bytes, usages: tuple[str, ...], fault: str
) -> None:
    new_request = request(content, signer, *usages)
    assert SIGNERS[signer](parse_requested_certificate(read(new_request)), new_request.spec.usages) == fault


def test_a_request_that_is_no_pem_is_unreadable() -> None:
    with pytest.raises(UnreadableRequest, match="unable to parse csr 'csr'"):
        read(request(b"rubbish", CLIENT))


def client_of(c: Cluster, user: UserInfo) -> Client:
    return Client(transport=c.transport.as_user(user), clock=c.clock, component="test")


async def test_requests_of_nodes_are_approved_and_signed(tmp_path: Path) -> None:
    async with cluster() as c:
        await bind_group(
            c, "system:certificates.k8s.io:certificatesigningrequests:nodeclient", BOOTSTRAP_USER.groups[0]
        )
        await bind_group(c, "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes")
        await bind_group(c, "system:node-bootstrapper", BOOTSTRAP_USER.groups[0])
        content = pem("system:node:n1", "system:nodes")
        async with c.running(APPROVING, SIGNING, config=config(tmp_path, c)):
            for name, user in (("joins", BOOTSTRAP_USER), ("renews", NODE_USER)):
                user_requests = client_of(c, user).for_kind(CertificateSigningRequest)
                await user_requests.create(request(content, KUBELET_CLIENT, *CLIENT_USAGES, name=name))
            await c.client.for_kind(CertificateSigningRequest).create(
                request(pem("system:node:n2", "system:nodes", "more"), KUBELET_CLIENT, *CLIENT_USAGES, name="wrong")
            )
            await c.clock.settle()
        requests = c.client.for_kind(CertificateSigningRequest)
        joins, renews, wrong = [await requests.get(name) for name in ("joins", "renews", "wrong")]
        assert joins.status.conditions[0].message.startswith("Auto approving kubelet client certificate")
        assert renews.status.conditions[0].message.startswith("Auto approving self kubelet client certificate")
        assert joins.status.conditions[0].reason == "AutoApproved"
        assert joins.status.certificate
        assert renews.status.certificate
        assert wrong.status.conditions == []


async def bind_group(c: Cluster, role: str, group: str) -> None:
    rbac = "rbac.authorization.k8s.io"
    ref = RoleRef(apiGroup=rbac, kind="ClusterRole", name=role)
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name=f"{group}-{role}".replace(":", "-")),
        roleRef=ref,
        subjects=[Subject(kind="Group", apiGroup=rbac, name=group)],
    )
    await c.client.for_kind(ClusterRoleBinding).create(binding)
