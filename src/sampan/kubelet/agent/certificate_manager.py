"""Keeps one certificate of a node valid (`pkg/kubelet/certificate`): requests it if it is missing, and rotates it
before it expires.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.backoff import Backoff, RetryDelays
from sampan.host.clock import Clock
from sampan.kubelet.cancellation import WorkCancelled, run_until
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.pki.certificates import KeyPair, SigningRequest, covers, life, make_key, make_request
from sampan.machinery.pki.pem import CERTIFICATE, PRIVATE_KEY_SUFFIX, read_blocks
from sampan.machinery.pki.private_files import write_private
from sampan.machinery.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

CLIENT_SIGNER, SERVING_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
_SIGNING_TIMEOUT_S = 15 * 60.0
"""How long to wait for a CertificateSigningRequest to be approved and signed before another one is created."""
_BACKOFF = Backoff(2.0, 64.0)
_EARLIEST, _SPREAD = 0.7, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest:
    """The content, the signer and the usages of a certificate that the kubelet requests."""

    content: SigningRequest
    signer: str
    usages: Sequence[str]


def client_request(node: str) -> CertificateRequest:
    content = SigningRequest(common_name=f"system:node:{node}", organizations=["system:nodes"], is_client=True)
    return CertificateRequest(content=content, signer=CLIENT_SIGNER, usages=("digital signature", "client auth"))


def serving_request(node: str, names: Sequence[str], addresses: Sequence[str]) -> CertificateRequest:
    content = SigningRequest(
        common_name=f"system:node:{node}",
        organizations=["system:nodes"],
        dns_names=sorted(set(names)),
        addresses=sorted(set(addresses)),
        is_server=True,
    )
    return CertificateRequest(content=content, signer=SERVING_SIGNER, usages=("digital signature", "server auth"))


def renewal_time(pem: bytes) -> float:
    """Return the time at which to replace the certificate: after 70 to 90 % of its lifetime, at a point that depends on
    the certificate so that renewals are spread. Pure.
    """
    begins, ends = life(pem)
    chance = int.from_bytes(hashlib.sha256(pem).digest()[:4], "big") / (1 << 32)
    return begins + (ends - begins) * (_EARLIEST + _SPREAD * chance)


class CertificateManager:
    def __init__(
        self,
        *,
        request: CertificateRequest,
        client: Callable[[], Client],
        store: CertificateStore,
        clock: Clock,
        use: Callable[[KeyPair], Awaitable[None]],
        present: KeyPair | None = None,
        rotates: bool = True,
    ) -> None:
        """`client` is called for each request, since the first one may be made with bootstrap credentials. `use`
        receives each new key pair after it has been stored. `present` is the pair already in use. Without `rotates`,
        only a missing certificate is requested.
        """
        self._request, self._client, self._store, self._clock, self._use = request, client, store, clock, use
        self._present, self._rotates = present, rotates
        self.failures = 0
        """How often a certificate could not be requested, or was not signed in time."""

    def remaining_s(self) -> float:
        """Return the seconds until the certificate expires; infinity if there is none yet."""
        return life(self._present.certificate)[1] - self._clock.now() if self._present is not None else float("inf")

    async def run(self) -> None:
        """Request and rotate certificates until cancelled, or until nothing is left to do."""
        while self._rotates or self._present is None:
            await self._clock.sleep_until(self._compute_renewal_time())
            pair = await self._issue()
            await self._adopt(pair)
            # The signer changed the content, or the certificate expires almost at once.
            if self._compute_renewal_time() <= self._clock.now():
                log.warning(
                    "the certificate issued for %s does not match the request", self._request.content.common_name
                )
                await self._clock.sleep(_BACKOFF.max_s)

    async def _adopt(self, pair: KeyPair) -> None:
        """Store the pair and use it, retrying until both succeed: a signed certificate must not be lost."""
        while True:
            try:
                await asyncio.to_thread(self._store.write, pair, self._clock.now())
                await self._use(pair)
                break
            except OSError as error:
                log.error("cannot store the certificate for %s: %s", self._request.content.common_name, error)
            await self._clock.sleep(_BACKOFF.max_s)
        self._present = pair
        log.info("started to use a new certificate for %s", self._request.content.common_name)

    def _compute_renewal_time(self) -> float:
        if self._present is None or not covers(self._present.certificate, self._request.content):
            return self._clock.now()
        return renewal_time(self._present.certificate)

    async def _issue(self) -> KeyPair:
        """Request a certificate, retrying until one is issued."""
        delays = RetryDelays(_BACKOFF)
        while True:
            pause_s = delays.next_s()
            try:
                return await self._issue_in_time()
            except WorkCancelled:
                self.failures += 1
                log.warning(
                    "the CertificateSigningRequest for %s was not signed in time", self._request.content.common_name
                )
            except (RequestDenied, errors.ApiError, ConnectionFailed) as error:
                self.failures += 1
                name = self._request.content.common_name
                log.warning("cannot request a certificate for %s: %s; retrying in %g s", name, error, pause_s)
            await self._clock.sleep(pause_s)

    async def _issue_in_time(self) -> KeyPair:
        request, key = self._request, make_key().key
        signing = request_certificate(
            self._client(), make_request(key, request.content), request.signer, request.usages
        )
        return KeyPair(await run_until(self._clock.sleep(_SIGNING_TIMEOUT_S), signing), key)


def export_certificate(metrics: Metrics, manager: CertificateManager, names: tuple[str, str]) -> None:
    """Export the remaining lifetime of a certificate and its failed renewals under these two names."""
    lifetime, failures = names
    metrics.function(lifetime, "Seconds until the certificate expires.", manager.remaining_s)
    metrics.function(failures, "Failed attempts to renew the certificate.", lambda: manager.failures, kind="counter")


class CertificateStore:
    """Stores key pairs in a directory; `name` is kubelet-client or kubelet-server."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name

    @property
    def current(self) -> Path:
        """The path of the current certificate and its key. The file may not exist yet."""
        return self._directory / f"{self._name}-current.pem"

    def read(self) -> KeyPair | None:
        """Return the current pair, or None if there is no usable one."""
        try:
            pair = split(self.current.read_bytes())
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self.current)
            return pair
        except (OSError, ValueError) as error:
            if self.current.exists():
                log.warning("cannot use certificate %s: %s", self.current, error)
            return None

    def write(self, pair: KeyPair, now: float) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d-%H-%M-%S")
        path, link = self._directory / f"{self._name}-{stamp}.pem", self._directory / f"{self._name}-updated.pem"
        write_private(path, pair.certificate.rstrip() + b"\n" + pair.key)
        link.unlink(missing_ok=True)
        link.symlink_to(path.name)
        link.replace(self.current)


def split(pem: bytes) -> KeyPair:
    """Return certificates and key of a PEM file. Raise ValueError if either is missing."""
    blocks = list(read_blocks(pem))
    keys = [block.encode() for block in blocks if block.type.endswith(PRIVATE_KEY_SUFFIX)]
    certificates = [block.encode() for block in blocks if block.type == CERTIFICATE]
    if not keys or not certificates:
        raise ValueError("want a certificate and its key")
    return KeyPair(b"".join(certificates), keys[0])


_REWATCH_PAUSE_S = 1.0
"""Pause between two watches of the same request, measured by the event loop's clock."""


class RequestDenied(Exception):
    """The CertificateSigningRequest was denied or failed; the message says why."""


async def request_certificate(client: Client, request_pem: bytes, signer: str, usages: Sequence[str]) -> bytes:
    """Return the signed certificate as PEM. Raise RequestDenied if the request is denied or fails, ApiError or
    ConnectionFailed if the API server cannot be used.
    """
    signing_request = await client.for_kind(CertificateSigningRequest).create(
        CertificateSigningRequest(
            metadata=ObjectMeta(generateName="csr-"),
            spec=CertificateSigningRequestSpec(request=request_pem, signerName=signer, usages=list(usages)),
        )
    )
    log.info("created CertificateSigningRequest %s", signing_request.metadata.name)
    return await _wait_for_certificate(client, signing_request.metadata.name)


async def _wait_for_certificate(client: Client, name: str) -> bytes:
    selection = Selection(fields=f"metadata.name={name}")
    requests = client.for_kind(CertificateSigningRequest)
    while True:
        async with requests.watch(selection, initial_events=True) as events:
            async for batch in events:
                for event in batch:
                    if (certificate_pem := _issued_certificate(event.object)) is not None:
                        return certificate_pem
        await asyncio.sleep(_REWATCH_PAUSE_S)


def _issued_certificate(request: object) -> bytes | None:
    if not isinstance(request, CertificateSigningRequest):
        return None
    for condition in request.status.conditions:
        if condition.type in ("Denied", "Failed"):
            message = condition.message or condition.reason
            raise RequestDenied(f"certificate signing request {request.metadata.name} was denied or failed: {message}")
    return request.status.certificate or None
