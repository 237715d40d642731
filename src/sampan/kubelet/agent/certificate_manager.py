"""Keeps one certificate of a node valid (`pkg/kubelet/certificate`): requests a missing one, and rotates it before it
expires.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sampan.kubelet.agent.certificate_store import CertificateStore
from sampan.kubelet.agent.csr_client import RequestDenied, request_certificate
from sampan.kubelet.cancellation import Cancelled, run_until
from sampan.machinery import errors
from sampan.machinery.certificates import KeyPair, Request, covers, life, make_key, make_request
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

CLIENT_SIGNER, SERVING_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
_PATIENCE_S = 15 * 60.0
"""How long to wait for a request to be approved and signed before another is created."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 64.0
_EARLIEST, _SPREAD = 0.7, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest:
    """Content, signer and usages of the certificate."""

    content: Request
    signer: str
    usages: Sequence[str]


def client_request(node: str) -> CertificateRequest:
    content = Request(common_name=f"system:node:{node}", organizations=["system:nodes"], is_client=True)
    return CertificateRequest(content=content, signer=CLIENT_SIGNER, usages=("digital signature", "client auth"))


def serving_request(node: str, names: Sequence[str], addresses: Sequence[str]) -> CertificateRequest:
    content = Request(
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

    async def run(self) -> None:
        """Request and rotate certificates until cancelled, or until nothing is left to do."""
        while self._rotates or self._present is None:
            await self._clock.sleep_until(self._due())
            pair = await self._issue()
            await self._adopt(pair)
            # The signer changed the content, or the certificate expires almost at once.
            if self._due() <= self._clock.now():
                log.warning(
                    "the certificate issued for %s does not match the request", self._request.content.common_name
                )
                await self._clock.sleep(_LONGEST_PAUSE_S)

    async def _adopt(self, pair: KeyPair) -> None:
        """Store the pair and use it, retrying until both succeed: a signed certificate must not be lost."""
        while True:
            try:
                await asyncio.to_thread(self._store.write, pair, self._clock.now())
                await self._use(pair)
                break
            except OSError as error:
                log.error("cannot store the certificate for %s: %s", self._request.content.common_name, error)
            await self._clock.sleep(_LONGEST_PAUSE_S)
        self._present = pair
        log.info("started to use a new certificate for %s", self._request.content.common_name)

    def _due(self) -> float:
        if self._present is None or not covers(self._present.certificate, self._request.content):
            return self._clock.now()
        return renewal_time(self._present.certificate)

    async def _issue(self) -> KeyPair:
        """Request a certificate, retrying until one is issued."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._issue_in_time()
            except Cancelled:
                log.warning(
                    "the CertificateSigningRequest for %s was not signed in time", self._request.content.common_name
                )
            except (RequestDenied, errors.ApiError, ConnectionFailed) as error:
                log.warning("cannot request a certificate: %s; retrying in %g s", error, pause_s)
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _issue_in_time(self) -> KeyPair:
        request, key = self._request, make_key().key
        signing = request_certificate(
            self._client(), make_request(key, request.content), request.signer, request.usages
        )
        return KeyPair(await run_until(self._clock.sleep(_PATIENCE_S), signing), key)
