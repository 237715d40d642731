"""How long certificate signing requests are kept."""

from pathlib import Path

import pytest

from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.api.values import times
from sampan.controllers.security.csr_approver import APPROVED, CLIENT, DENIED, FAILED
from sampan.controllers.security.csr_cleaner import expires_in_s
from sampan.machinery import errors
from tests.controllers.cluster import cluster
from tests.controllers.security.requests import (
    CLEANER,
    CLIENT_USAGES,
    SIGNING,
    approve,
    condition,
    config,
    pem,
    request,
)

DAY = 24 * 3600


async def test_old_requests_are_deleted(tmp_path: Path) -> None:
    async with cluster() as c:
        requests = c.client.for_kind(CertificateSigningRequest)
        async with c.running(SIGNING, CLEANER, config=config(tmp_path, c)):
            for name in ("issued", "denied", "pending"):
                await requests.create(request(pem("ann"), CLIENT, *CLIENT_USAGES, name=name))
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
def test_seconds_until_a_request_is_deleted(kinds: list[str], certificate: bytes, expected: float) -> None:
    now = 1_000_000.0
    new_request = request(b"", CLIENT)
    new_request.metadata.creationTimestamp = times.format_time(now)
    new_request.status.certificate = certificate
    new_request.status.conditions = [condition(kind, times.format_time(now)) for kind in kinds]
    assert expires_in_s(new_request, now) == expected
