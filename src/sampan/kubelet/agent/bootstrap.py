"""TLS bootstrap: a node that has but a token asks for a certificate of its own."""

from __future__ import annotations

import asyncio
import logging

from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.certificates import make_request
from sampan.machinery.client import Client, Selection

log = logging.getLogger(__name__)

SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_USAGES = ("digital signature", "client auth")


class BootstrapFailed(Exception):
    """The certificate was refused; the message says why."""


async def client_certificate(client: Client, node: str, key_pem: bytes) -> bytes:
    """Ask for it, and wait until somebody has approved and signed."""
    asked = make_request(key_pem, f"system:node:{node}", ("system:nodes",))
    requests = client.of(CertificateSigningRequest)
    made = await requests.create(
        CertificateSigningRequest(
            metadata=ObjectMeta(generateName="node-csr-"),
            spec=CertificateSigningRequestSpec(request=asked, signerName=SIGNER, usages=list(_USAGES)),
        )
    )
    log.info("asked for a certificate: %s", made.metadata.name)
    return await _signed(client, made.metadata.name)


async def _signed(client: Client, name: str) -> bytes:
    chosen = Selection(fields=f"metadata.name={name}")
    requests = client.of(CertificateSigningRequest)
    while True:
        async with requests.watch(chosen, initial_events=True) as events:
            async for batch in events:
                for event in batch:
                    if (found := _outcome(event.object)) is not None:
                        return found
        await asyncio.sleep(1)


def _outcome(request: object) -> bytes | None:
    if not isinstance(request, CertificateSigningRequest):
        return None
    for condition in request.status.conditions:
        if condition.type in ("Denied", "Failed"):
            told = condition.message or condition.reason
            raise BootstrapFailed(f"certificate signing request {request.metadata.name} was refused: {told}")
    return request.status.certificate or None


__all__ = ["SIGNER", "BootstrapFailed", "client_certificate"]
