"""Requests for certificates from their creation to their end, with the real API server."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from sampan.api import times
from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.apiserver.request.call import UserInfo
from sampan.cli.components import kube_controller_manager
from sampan.cli.failures import CliError
from sampan.cli.flags.certificate_signing import signing
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.security.csr_approver import (
    APPROVED,
    CLIENT,
    DENIED,
    FAILED,
    KUBELET_CLIENT,
    SIGNERS,
)
from sampan.controllers.security.csr_cleaner import left_s
from sampan.controllers.security.csr_signer import (
    Authority,
    CannotSign,
    authorities_of,
    lifetime_s,
    span,
)
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from tests.controllers.cluster import Cluster, cluster, second_run_writes_nothing
from tests.controllers.security.requests import APPROVING, CLEANER, SIGNING, condition, config, pem, request

USES = ("digital signature", "client auth")
NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
JOINING = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated"))
DAY = 24 * 3600


async def approve(c: Cluster, name: str = "csr", kind: str = APPROVED) -> None:
    requests = c.client.of(CertificateSigningRequest)
    request = copy_of(await requests.get(name))
    request.status.conditions.append(condition(kind))
    await requests.update(request, subresource="approval")
    await c.clock.settle()


def client_of(c: Cluster, user: UserInfo) -> Client:
    return Client(transport=c.transport.as_user(user), clock=c.clock, component="test")


async def test_what_is_approved_is_signed(tmp_path: Path) -> None:
    async with cluster() as c:
        about, requests = config(tmp_path, c), c.client.of(CertificateSigningRequest)
        async with c.running(SIGNING, config=about):
            await requests.create(request(pem("ann", "team"), CLIENT, *USES, expires_s=3600))
            await requests.create(request(pem("ben"), CLIENT, "server auth", name="bad"))
            await requests.create(request(pem("cy"), "example.com/other", *USES, name="other"))
            await c.clock.settle()
            assert not (await requests.get("csr")).status.certificate
            for name in ("csr", "bad", "other"):
                await approve(c, name)
            certificate = x509.load_pem_x509_certificate((await requests.get("csr")).status.certificate)
            bad, other = await requests.get("bad"), await requests.get("other")
        assert certificate.subject.rfc4514_string() == "CN=ann,O=team"
        assert certificate.issuer.rfc4514_string() == "CN=test"
        assert certificate.not_valid_after_utc.timestamp() == int(c.clock.now()) + 3600
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert [use.dotted_string for use in uses] == ["1.3.6.1.5.5.7.3.2"]
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))
        failed = bad.status.conditions[-1]
        assert (failed.type, failed.reason) == (FAILED, "SignerValidationFailure")
        assert failed.message == "invalid usage for client certificate: server auth"
        assert not bad.status.certificate
        assert [condition.type for condition in other.status.conditions] == [APPROVED]
        assert not other.status.certificate
        await second_run_writes_nothing(c, SIGNING, APPROVING)


async def test_nodes_get_their_certificates(tmp_path: Path) -> None:
    async with cluster() as c:
        await _bind(c, "system:certificates.k8s.io:certificatesigningrequests:nodeclient", JOINING.groups[0])
        await _bind(c, "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes")
        await _bind(c, "system:node-bootstrapper", JOINING.groups[0])
        content = pem("system:node:n1", "system:nodes")
        async with c.running(APPROVING, SIGNING, config=config(tmp_path, c)):
            for name, user in (("joins", JOINING), ("renews", NODE)):
                mine = client_of(c, user).of(CertificateSigningRequest)
                await mine.create(request(content, KUBELET_CLIENT, *USES, name=name))
            await c.client.of(CertificateSigningRequest).create(
                request(pem("system:node:n2", "system:nodes", "more"), KUBELET_CLIENT, *USES, name="wrong")
            )
            await c.clock.settle()
        requests = c.client.of(CertificateSigningRequest)
        joins, renews, wrong = [await requests.get(name) for name in ("joins", "renews", "wrong")]
        assert joins.status.conditions[0].message.startswith("Auto approving kubelet client certificate")
        assert renews.status.conditions[0].message.startswith("Auto approving self kubelet client certificate")
        assert joins.status.conditions[0].reason == "AutoApproved"
        assert joins.status.certificate
        assert renews.status.certificate
        assert wrong.status.conditions == []


async def _bind(c: Cluster, role: str, group: str) -> None:
    from sampan.api.types.meta_v1 import ObjectMeta
    from sampan.api.types.rbac_v1 import ClusterRoleBinding, RoleRef, Subject

    rbac = "rbac.authorization.k8s.io"
    ref = RoleRef(apiGroup=rbac, kind="ClusterRole", name=role)
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name=f"{group}-{role}".replace(":", "-")),
        roleRef=ref,
        subjects=[Subject(kind="Group", apiGroup=rbac, name=group)],
    )
    await c.client.of(ClusterRoleBinding).create(binding)


async def test_requests_go(tmp_path: Path) -> None:
    async with cluster() as c:
        requests = c.client.of(CertificateSigningRequest)
        async with c.running(SIGNING, CLEANER, config=config(tmp_path, c)):
            for name in ("issued", "denied", "pending"):
                await requests.create(request(pem("ann"), CLIENT, *USES, name=name))
            await approve(c, "issued")
            await approve(c, "denied", DENIED)
            await c.clock.advance(3590)
            assert len((await requests.list()).items) == 3
            await c.clock.advance(20)
            assert [request.metadata.name for request in (await requests.list()).items] == ["pending"]
            await c.clock.advance(DAY)
            with pytest.raises(errors.NotFound):
                await requests.get("pending")


@pytest.mark.parametrize(
    ("kinds", "certificate", "expected"),
    [
        ([], b"", DAY),
        ([APPROVED], b"", DAY),
        ([APPROVED], b"x", 3600),
        ([DENIED], b"", 3600),
        ([APPROVED, FAILED], b"", 3600),
        (["Strange"], b"", float("inf")),
    ],
)
def test_how_long_requests_stay(kinds: list[str], certificate: bytes, expected: float) -> None:
    now = 1_000_000.0
    new_request = request(b"", CLIENT)
    new_request.metadata.creationTimestamp = times.format_time(now)
    new_request.status.certificate = certificate
    new_request.status.conditions = [condition(kind, times.format_time(now)) for kind in kinds]
    assert left_s(new_request, now) == expected


@pytest.mark.parametrize(
    ("requested", "most", "expected"), [(None, 1000, 1000), (700, 1000, 700), (2000, 1000, 1000), (60, 1000, 600)]
)
def test_lifetimes(requested: int | None, most: float, expected: float) -> None:
    assert lifetime_s(requested, most) == expected


def test_spans() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    end = now + timedelta(days=30)
    minutes = timedelta(minutes=5)
    assert span(3600, end, now.timestamp()) == (now - minutes, now + timedelta(hours=1))
    assert span(DAY, end, now.timestamp()) == (now - minutes, now + timedelta(days=1) - minutes)
    assert span(365 * DAY, end, now.timestamp()) == (now - minutes, end)
    with pytest.raises(CannotSign):
        span(3600, now, now.timestamp())


def test_a_signer_may_have_a_ca_of_its_own() -> None:
    own = ControllerConfig(cluster_signing_files={CLIENT: ("/a", "/b")})
    assert authorities_of(own) == {CLIENT: Authority(Path("/a"), Path("/b"), 365 * DAY)}
    shared = ControllerConfig(cluster_signing_cert_file="/a", cluster_signing_key_file="/b")
    assert set(authorities_of(shared)) == set(SIGNERS)
    assert authorities_of(ControllerConfig()) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--cluster-signing-cert-file /dev/null", "give both or neither"),
        ("--cluster-signing-kubelet-client-key-file /dev/null", "--cluster-signing-kubelet-client-cert-file and"),
        ("--cluster-signing-duration 0s", "--cluster-signing-duration: must be greater"),
        (
            "--cluster-signing-cert-file /dev/null --cluster-signing-key-file /dev/null "
            "--cluster-signing-kubelet-serving-cert-file /dev/null "
            "--cluster-signing-kubelet-serving-key-file /dev/null",
            "cannot be given together",
        ),
    ],
)
def test_mistakes(words: str, message: str) -> None:
    parameters = kube_controller_manager.command.make_context("x", words.split()).params
    with pytest.raises(CliError, match=message):
        signing(parameters)


def test_flags_for_single_signers() -> None:
    words = "--cluster-signing-kubelet-client-cert-file=/dev/null --cluster-signing-kubelet-client-key-file=/dev/null"
    parameters = kube_controller_manager.command.make_context("x", words.split()).params
    assert signing(parameters)["cluster_signing_files"] == {KUBELET_CLIENT: ("/dev/null", "/dev/null")}
