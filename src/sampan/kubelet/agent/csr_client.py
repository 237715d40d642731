"""Creates a CertificateSigningRequest and waits until it is approved and signed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.client import Client, Selection

log = logging.getLogger(__name__)

_WATCH_AGAIN_S = 1.0
"""Pause between two watches of the same request, measured by the event loop's clock."""


class RequestDenied(Exception):
    """The request was denied or failed; the message says why."""


async def request_certificate(client: Client, request_pem: bytes, signer: str, usages: Sequence[str]) -> bytes:
    """Return the signed certificate as PEM. Raise RequestDenied if the request is denied or fails, ApiError or
    ConnectionFailed if the API server cannot be used.
    """
    signing_request = await client.of(CertificateSigningRequest).create(
        CertificateSigningRequest(
            metadata=ObjectMeta(generateName="csr-"),
            spec=CertificateSigningRequestSpec(request=request_pem, signerName=signer, usages=list(usages)),
        )
    )
    log.info("created CertificateSigningRequest %s", signing_request.metadata.name)
    return await _wait_for_certificate(client, signing_request.metadata.name)


async def _wait_for_certificate(client: Client, name: str) -> bytes:
    selection = Selection(fields=f"metadata.name={name}")
    requests = client.of(CertificateSigningRequest)
    while True:
        async with requests.watch(selection, initial_events=True) as events:
            async for batch in events:
                for event in batch:
                    if (certificate_pem := _issued_certificate(event.object)) is not None:
                        return certificate_pem
        await asyncio.sleep(_WATCH_AGAIN_S)


def _issued_certificate(request: object) -> bytes | None:
    if not isinstance(request, CertificateSigningRequest):
        return None
    for condition in request.status.conditions:
        if condition.type in ("Denied", "Failed"):
            message = condition.message or condition.reason
            raise RequestDenied(f"certificate signing request {request.metadata.name} was denied or failed: {message}")
    return request.status.certificate or None
