"""A signer of PodCertificateRequests, which runs inside the test program."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from sampan.api.types.meta_v1 import Condition
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery.client import Client
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.pki.certificates import make_ca

SIGNER = "example.com/signer"
_DAY_S = 24 * 3600


class PodSigner:
    """Issues a certificate for each request. `outcome` may be changed to a condition type such as Denied, or to an
    empty string for no answer at all."""

    def __init__(self, *, client: Client, kind: type[Any], clock: Clock, lifetime_s: int = _DAY_S) -> None:
        self._client, self._kind, self._clock, self._lifetime_s = client, kind, clock, lifetime_s
        self.ca = make_ca("signer", now=clock.now())
        self.outcome = "Issued"
        self.requests: list[Any] = []
        """The requests in the order of their creation."""
        self._arrivals: asyncio.Queue[Any] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["PodSigner"]:
        """Answer all requests during the context."""
        async with InformerFactory(client=self._client) as informers, asyncio.TaskGroup() as group:
            informer = informers.for_kind(self._kind)
            informer.subscribe(lambda old, new: self._arrivals.put_nowait(new) if old is None else None)
            task = group.create_task(self._run())
            yield self
            task.cancel()

    async def _run(self) -> None:
        while True:
            request = await self._arrivals.get()
            self.requests.append(request)
            if self.outcome and request.spec.signerName == SIGNER:
                await self.issue(request)

    async def issue(self, request: Any) -> Any:
        """Issue a certificate for a request, or refuse it, and return the updated request."""
        changed, now = copy_of(request), self._clock.now()
        stamp = times.format_time(now)
        changed.status.conditions = [
            Condition(type=self.outcome, status="True", reason="Tested", message="for a test", lastTransitionTime=stamp)
        ]
        if self.outcome == "Issued":
            seconds = min(self._lifetime_s, request.spec.maxExpirationSeconds or self._lifetime_s)
            changed.status.certificateChain = f"text\n{self.sign(request, now, seconds)}"
            changed.status.notBefore = times.format_time(now)
            changed.status.beginRefreshAt = times.format_time(now + seconds * 2 // 3)
            changed.status.notAfter = times.format_time(now + seconds)
        return await self._client.for_kind(self._kind).update_status(changed)

    def sign(self, request: Any, now: float, seconds: int) -> str:
        stub = x509.load_der_x509_csr(request.spec.stubPKCS10Request)
        assert stub.is_signature_valid
        key = serialization.load_pem_private_key(self.ca.key, None)
        issuer = x509.load_pem_x509_certificate(self.ca.certificate).subject
        names = [x509.NameAttribute(NameOID.COMMON_NAME, request.spec.podName)]
        path = request.spec.unverifiedUserAnnotations.get("example.com/path", "/pod")
        begin = datetime.fromtimestamp(int(now), UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(names))
            .issuer_name(issuer)
            .public_key(stub.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(seconds=seconds))
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.UniformResourceIdentifier(f"spiffe://test{path}"), x509.DNSName(request.spec.podName)]
                ),
                critical=False,
            )
            .sign(key, hashes.SHA256())  # type: ignore[arg-type]
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode()
