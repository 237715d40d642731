"""The cluster's certificates are renewed before they expire, with keys that clients already trust."""

import asyncio
import ssl
from pathlib import Path

import msgspec
import pytest
from cryptography import x509

from sampan.cluster.certificate_renewal import BEFORE_S, CertificateRenewer
from sampan.cluster.nodes.kubelet_ports import cluster_ports
from sampan.cluster.pki import ACCOUNTS, ADMIN, CA, KUBELET_CLIENT, PROXY_CA, PROXY_CLIENT, SERVER, Pki, PkiRenewal
from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.kubelet.agent.config import AgentConfig
from sampan.machinery.pki.certificates import expiry
from sampan.network.nodes import NodeAttachment

NAMES = ("localhost", "127.0.0.1")
DAY_S = 24 * 3600
ISSUED_BY_CA = (SERVER, ADMIN, KUBELET_CLIENT)
LEAVES = (*ISSUED_BY_CA, PROXY_CLIENT)
ALL = (CA, PROXY_CA, *LEAVES)


def read_files(pki: Pki) -> dict[str, bytes]:
    return {name: pki.certificate(name).read_bytes() for name in (*ALL, ACCOUNTS)}


def find_changed_files(before: dict[str, bytes], pki: Pki) -> set[str]:
    return {name for name, content in read_files(pki).items() if content != before[name]}


def test_only_expiring_or_incomplete_certificates_are_reissued(tmp_path: Path) -> None:
    pki, now = Pki(tmp_path / "pki"), 1_700_000_000.0
    pki.ensure(names=NAMES, now=now)
    before = read_files(pki)
    pki.ensure(names=NAMES[:1], now=now + 300 * DAY_S)
    assert find_changed_files(before, pki) == set()
    pki.ensure(names=(*NAMES, "example.com"), now=now)
    assert find_changed_files(before, pki) == {SERVER}, "only the server certificate contains these names"
    before = read_files(pki)
    pki.ensure(names=NAMES, now=now + 306 * DAY_S)
    assert find_changed_files(before, pki) == set(LEAVES)
    assert all(expiry(read_files(pki)[name]) > now + 600 * DAY_S for name in LEAVES)


def test_a_ca_that_is_renewed_keeps_its_key(tmp_path: Path) -> None:
    pki, now = Pki(tmp_path / "pki"), 1_700_000_000.0
    pki.ensure(names=NAMES, now=now)
    old, later = read_files(pki), now + 3600 * DAY_S
    pki.ensure(names=NAMES, now=later)
    assert ACCOUNTS not in find_changed_files(old, pki)
    assert {CA, PROXY_CA} <= find_changed_files(old, pki)
    fresh = x509.load_pem_x509_certificate(read_files(pki)[SERVER])
    fresh.verify_directly_issued_by(x509.load_pem_x509_certificate(old[CA]))
    x509.load_pem_x509_certificate(old[ADMIN]).verify_directly_issued_by(
        x509.load_pem_x509_certificate(read_files(pki)[CA])
    )


def test_missing_ca_key_reissues_the_ca_and_its_certificates(tmp_path: Path) -> None:
    pki, now = Pki(tmp_path / "pki"), 1_700_000_000.0
    pki.ensure(names=NAMES, now=now)
    before = read_files(pki)
    pki.key(CA).unlink()
    pki.ensure(names=NAMES, now=now)
    assert find_changed_files(before, pki) == {CA, *ISSUED_BY_CA}, "the front proxy CA still has its key"


def test_front_proxy_certificates_are_added_to_an_older_pki_directory(tmp_path: Path) -> None:
    pki, now = Pki(tmp_path / "pki"), 1_700_000_000.0
    pki.ensure(names=NAMES, now=now)
    before, kept = read_files(pki), tmp_path / "pki" / "kept.json"
    known = msgspec.json.decode(kept.read_bytes())
    kept.write_bytes(msgspec.json.encode({name: known[name] for name in (CA, *ISSUED_BY_CA)}))
    for name in (PROXY_CA, PROXY_CLIENT):
        pki.certificate(name).unlink()
        pki.key(name).unlink()
    pki.ensure(names=NAMES, now=now)
    assert find_changed_files(before, pki) == {PROXY_CA, PROXY_CLIENT}


def test_front_proxy_certificate_is_issued_by_the_front_proxy_ca(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    pki.ensure(names=NAMES, now=1_700_000_000.0)
    client, own, users = (
        x509.load_pem_x509_certificate(read_files(pki)[name]) for name in (PROXY_CLIENT, PROXY_CA, CA)
    )
    client.verify_directly_issued_by(own)
    assert client.subject.rfc4514_string() == "CN=front-proxy-client"
    with pytest.raises(ValueError, match="Issuer"):
        client.verify_directly_issued_by(users)


async def test_certificates_are_renewed_while_the_cluster_runs(tmp_path: Path) -> None:
    clock, renewed = VirtualClock(), []
    pki, renewals = Pki(tmp_path / "pki"), CertificateRenewer()
    pki.ensure(names=NAMES, now=clock.now())
    first, due = read_files(pki), pki.renewal_time()
    assert due == pytest.approx(clock.now() + 365 * DAY_S - BEFORE_S, abs=600)
    renewals.add(PkiRenewal(pki=pki, names=NAMES, on_renewed=lambda: renewed.append(clock.now())))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(renewals.run(clock))
        await clock.advance(due - clock.now() - 60)
        assert renewed == []
        await clock.advance(DAY_S)
        assert len(renewed) == 1
        assert find_changed_files(first, pki) == set(LEAVES)
        assert pki.renewal_time() > due + 300 * DAY_S
        running.cancel()


async def test_failed_renewal_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, renewed = VirtualClock(), []
    pki, renewals = Pki(tmp_path / "pki"), CertificateRenewer()
    pki.ensure(names=NAMES, now=clock.now() - 320 * DAY_S)
    pki.certificate(SERVER).unlink()
    pki.certificate(SERVER).mkdir()
    renewals.add(PkiRenewal(pki=pki, names=NAMES, on_renewed=lambda: renewed.append(clock.now())))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(renewals.run(clock))
        await clock.advance(1)
        assert "cannot renew a certificate" in caplog.text
        pki.certificate(SERVER).rmdir()
        await clock.advance(300)
        assert len(renewed) == 1
        running.cancel()


async def test_unusable_ca_key_does_not_stop_other_renewals(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, renewed, renewals = VirtualClock(), [], CertificateRenewer()
    bad, good = Pki(tmp_path / "bad"), Pki(tmp_path / "good")
    for pki in (bad, good):
        pki.ensure(names=NAMES, now=clock.now() - 320 * DAY_S)
        renewals.add(PkiRenewal(pki=pki, names=NAMES, on_renewed=lambda pki=pki: renewed.append(pki)))  # type: ignore[misc]
    bad.key(CA).write_text("nonsense")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(renewals.run(clock))
        await clock.advance(1)
        assert renewed == [good]
        assert "cannot renew a certificate" in caplog.text
        running.cancel()


def test_kubelet_port_serves_the_renewed_certificate(tmp_path: Path) -> None:
    pki, clock = Pki(tmp_path / "pki"), VirtualClock()
    pki.ensure(names=NAMES, now=clock.now())
    renewals = CertificateRenewer()
    make_config = cluster_ports((pki.certificate(CA), pki.key(CA)), pki.certificate(CA), renewals, address="127.0.0.1")
    attachment = NodeAttachment(
        node="node-0", directory=tmp_path, namespace=NetworkNamespace(), addresses=["127.0.0.1"]
    )
    ports = make_config(AgentConfig(name="node-0", root=tmp_path, logs=tmp_path / "logs"), attachment)
    path = tmp_path / "pki" / "kubelet-server.pem"
    before, (serving,) = path.read_bytes(), renewals._all
    serving.renew(serving.renewal_time())
    assert path.read_bytes() != before
    assert fetch_certificate(ports.tls, pki.certificate(CA)) == ssl.PEM_cert_to_DER_cert(_read_first_certificate(path))


def _read_first_certificate(path: Path) -> str:
    text = path.read_text()
    return text[: text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")]


def fetch_certificate(server: ssl.SSLContext | None, ca: Path) -> bytes | None:
    """Return the certificate that a client receives in a TLS handshake in memory.

    The client does not verify the certificate, because its validity follows the virtual clock.
    """
    assert server is not None
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server)
    server_side_tls = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (client_side, server_side_tls, client_side, server_side_tls):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client_side.getpeercert(binary_form=True)


def test_kept_json_records_the_expiry_of_each_certificate(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    pki.ensure(names=NAMES, now=1_700_000_000.0)
    kept = msgspec.json.decode((tmp_path / "pki" / "kept.json").read_bytes())
    assert set(kept) == set(ALL)
    assert kept[SERVER]["expiry"] == expiry(read_files(pki)[SERVER])
