"""A node's certificate from the first CSR to its renewal, with the controllers that approve and sign."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from sampan.apiserver.request.call import UserInfo
from sampan.kubelet.agent.certificate_manager import (
    CertificateManager,
    CertificateStore,
    client_request,
    export_certificate,
    renewal_time,
    serving_request,
)
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, issue, life, make_ca
from sampan.machinery.telemetry.metrics import Metrics
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.security.requests import APPROVING, SIGNING, config
from tests.eventually import eventually
from tests.kubelet.agent.bootstrap_rights import bind_bootstrap_roles

AUTHENTICATED = "system:authenticated"
JOINING = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers", AUTHENTICATED))
NODE = UserInfo("system:node:n1", groups=("system:nodes", AUTHENTICATED))


def client_of(c: Cluster, user: UserInfo) -> Client:
    return Client(transport=c.transport.as_user(user), clock=c.clock, component="test")


async def bind_roles(c: Cluster) -> None:
    await bind_bootstrap_roles(c.client)
    await c.clock.settle()


async def requests(c: Cluster) -> list[CertificateSigningRequest]:
    return list((await c.client.for_kind(CertificateSigningRequest).list()).items)


async def has_requests(c: Cluster, count: int) -> bool:
    return len(await requests(c)) >= count


async def has_certificate(c: Cluster) -> bool:
    return any(request.status.certificate for request in await requests(c))


async def wait_for_requests(c: Cluster, count: int) -> None:
    await eventually(lambda: has_requests(c, count), step=lambda: c.clock.advance(1))


async def wait_for(c: Cluster, holds: Callable[[], bool]) -> None:
    """Wait until the condition holds; keys and files are written in threads, which a virtual clock does not see."""
    await eventually(holds, step=c.clock.settle)


async def test_certificate_is_requested_by_the_bootstrap_user_and_renewed_by_the_node(tmp_path: Path) -> None:
    async with cluster() as c, c.running(APPROVING, SIGNING, config=config(tmp_path, c)):
        await bind_roles(c)
        used: list[KeyPair] = []
        store = CertificateStore(tmp_path / "pki", "kubelet-client")

        async def use(pair: KeyPair) -> None:
            used.append(pair)

        manager = CertificateManager(
            request=client_request("n1"),
            client=lambda: client_of(c, NODE if used else JOINING),
            store=store,
            clock=c.clock,
            use=use,
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            await wait_for(c, lambda: len(used) == 1)
            assert store.read() == used[0]
            begins, ends = life(used[0].certificate)
            await c.clock.advance((ends - begins) * 0.69)
            assert len(used) == 1
            await c.clock.advance((ends - begins) * 0.22)
            await wait_for(c, lambda: len(used) == 2)
            task.cancel()
        assert store.read() == used[1] != used[0]
        assert life(used[1].certificate)[1] > ends
        assert {request.spec.username for request in await requests(c)} == {JOINING.name, NODE.name}
        assert store.current.is_symlink()
        assert store.current.stat().st_mode & 0o777 == 0o600


async def test_denied_csr_is_requested_again(tmp_path: Path) -> None:
    async def decide(c: Cluster, name: str, kind: str) -> None:
        request = copy_of(await c.client.for_kind(CertificateSigningRequest).get(name))
        request.status.conditions.append(
            CertificateSigningRequestCondition(type=kind, status="True", reason="Tested", message="not now")
        )
        await c.client.for_kind(CertificateSigningRequest).update(request, subresource="approval")
        await c.clock.settle()

    async with cluster() as c, c.running(APPROVING, SIGNING, config=config(tmp_path, c)):
        used: list[KeyPair] = []

        async def use(pair: KeyPair) -> None:
            used.append(pair)

        manager = CertificateManager(
            request=serving_request("n1", ["n1"], ["10.0.0.1"]),
            client=lambda: client_of(c, NODE),
            store=CertificateStore(tmp_path / "pki", "kubelet-server"),
            clock=c.clock,
            use=use,
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            for count, kind in ((1, "Denied"), (2, "Approved")):
                await wait_for_requests(c, count)
                newest = max(await requests(c), key=lambda request: int(request.metadata.resourceVersion))
                await decide(c, newest.metadata.name, kind)
            await wait_for(c, lambda: len(used) == 1)
            task.cancel()
        metrics = Metrics()
        export_certificate(metrics, manager, ("lifetime", "errors"))
        values = dict(line.split() for line in metrics.text().splitlines() if not line.startswith("#"))
        remaining_s = life(used[0].certificate)[1] - c.clock.now()
        assert values == {"lifetime": str(int(remaining_s)), "errors": "1"}
        names = x509.load_pem_x509_certificate(used[0].certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        assert names.value.get_values_for_type(x509.DNSName) == ["n1"]
        assert [str(address) for address in names.value.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]


def test_renewal_is_due_after_70_to_90_percent_of_the_lifetime() -> None:
    ca = make_ca("test", now=0)
    for number in range(20):
        pem = issue(ca, SigningRequest(common_name=f"n{number}"), now=0, days=10).certificate
        begins, ends = life(pem)
        assert 0.7 <= (renewal_time(pem) - begins) / (ends - begins) <= 0.9


def test_a_stored_key_pair_that_cannot_be_used_is_ignored(tmp_path: Path) -> None:
    ca, store = make_ca("ca", now=0), CertificateStore(tmp_path, "kubelet-client")
    assert store.read() is None
    pair, other = (issue(ca, SigningRequest(common_name="n", is_client=True), now=0) for _ in range(2))
    store.write(pair, 0)
    assert store.read() == pair
    store.write(KeyPair(pair.certificate, other.key), 1)
    assert store.read() is None
    store.write(KeyPair(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", pair.key), 2)
    assert store.read() is None


async def test_a_certificate_that_cannot_be_written_at_first_is_written_later(tmp_path: Path) -> None:
    (tmp_path / "pki").touch()
    async with cluster() as c, c.running(APPROVING, SIGNING, config=config(tmp_path, c)):
        await bind_roles(c)
        used: list[KeyPair] = []

        async def use(pair: KeyPair) -> None:
            used.append(pair)

        store = CertificateStore(tmp_path / "pki", "kubelet-client")
        manager = CertificateManager(
            request=client_request("n1"), client=lambda: client_of(c, JOINING), store=store, clock=c.clock, use=use
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            await eventually(lambda: has_certificate(c), step=c.clock.settle)
            (tmp_path / "pki").unlink()
            await eventually(lambda: bool(used), step=lambda: c.clock.advance(1))
            assert store.read() == used[0]
            assert len(await requests(c)) == 1
            task.cancel()


async def test_a_certificate_that_differs_from_the_request_is_requested_again_later(tmp_path: Path) -> None:
    async with cluster() as c:
        ca = make_ca("ca", now=c.clock.now())
        used: list[KeyPair] = []

        async def use(pair: KeyPair) -> None:
            used.append(pair)

        async def sign() -> None:
            request = copy_of((await requests(c))[-1])
            other = SigningRequest(common_name="somebody", is_server=True)
            request.status.certificate = issue(ca, other, now=c.clock.now()).certificate
            await c.client.for_kind(CertificateSigningRequest).update(request, subresource="status")

        manager = CertificateManager(
            request=serving_request("n1", ["n1"], ["10.0.0.1"]),
            client=lambda: client_of(c, NODE),
            store=CertificateStore(tmp_path, "kubelet-server"),
            clock=c.clock,
            use=use,
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            await eventually(lambda: has_requests(c, 1))
            await sign()
            await wait_for(c, lambda: len(used) == 1)
            await c.clock.advance(60)
            assert len(await requests(c)) == 1
            await wait_for_requests(c, 2)
            task.cancel()
