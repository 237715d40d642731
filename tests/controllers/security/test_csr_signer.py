"""Signing of approved certificate signing requests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.security.csr_approver import APPROVED, CLIENT, FAILED, SIGNERS
from sampan.controllers.security.csr_signer import CannotSign, CertificateAuthority, authorities_of, lifetime_s, span
from tests.controllers.cluster import check_second_run_writes_nothing, cluster
from tests.controllers.security.requests import (
    APPROVING,
    CLIENT_USAGES,
    SIGNING,
    approve,
    config,
    pem,
    request,
)

DAY = 24 * 3600


async def test_approved_requests_are_signed(tmp_path: Path) -> None:
    async with cluster() as c:
        settings, requests = config(tmp_path, c), c.client.for_kind(CertificateSigningRequest)
        async with c.running(SIGNING, config=settings):
            await requests.create(request(pem("ann", "team"), CLIENT, *CLIENT_USAGES, expires_s=3600))
            await requests.create(request(pem("ben"), CLIENT, "server auth", name="bad"))
            await requests.create(request(pem("cy"), "example.com/other", *CLIENT_USAGES, name="other"))
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
        await check_second_run_writes_nothing(c, SIGNING, APPROVING)


@pytest.mark.parametrize(
    ("requested", "most", "expected"), [(None, 1000, 1000), (700, 1000, 700), (2000, 1000, 1000), (60, 1000, 600)]
)
def test_a_lifetime_is_at_least_ten_minutes_and_at_most_the_maximum(
    requested: int | None, most: float, expected: float
) -> None:
    assert lifetime_s(requested, most) == expected


def test_certificate_does_not_outlive_its_ca() -> None:
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
    assert authorities_of(own) == {CLIENT: CertificateAuthority(Path("/a"), Path("/b"), 365 * DAY)}
    shared = ControllerConfig(cluster_signing_cert_file="/a", cluster_signing_key_file="/b")
    assert set(authorities_of(shared)) == set(SIGNERS)
    assert authorities_of(ControllerConfig()) == {}
