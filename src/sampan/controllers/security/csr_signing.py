"""certificatesigningrequest-signing-controller, which signs approved requests for the built-in signers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from sampan.api import times
from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from sampan.controllers.descriptor import ControllerConfig, Parts
from sampan.controllers.security.csr_rules import (
    APPROVED,
    DENIED,
    FAILED,
    SIGNERS,
    UnreadableRequest,
    asked_of,
    has,
    read,
)
from sampan.controllers.security.issuing import Authority
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import Key, key_of

log = logging.getLogger(__name__)


def is_due(request: CertificateSigningRequest) -> bool:
    """Whether the request is approved, for a built-in signer, and neither signed nor failed."""
    if request.spec.signerName not in SIGNERS or request.status.certificate:
        return False
    failed = any(
        condition.type == FAILED and condition.status in ("", "True") for condition in request.status.conditions
    )
    return has(request, APPROVED) and not has(request, DENIED) and not failed


def answered(request: CertificateSigningRequest, authority: Authority, now: float) -> CertificateSigningRequest:
    """Return a copy with the certificate, or with a Failed condition if the signer rejects the request."""
    csr, spec, result = read(request), request.spec, copy_of(request)
    if error := SIGNERS[spec.signerName](asked_of(csr), spec.usages):
        condition = CertificateSigningRequestCondition(
            type=FAILED,
            status="True",
            reason="SignerValidationFailure",
            message=error,
            lastUpdateTime=times.format_time(now),
        )
        result.status.conditions.append(condition)
    else:
        result.status.certificate = authority.sign(csr, spec.usages, spec.expirationSeconds, now)
    return result


class CsrSigningController:
    name = "certificatesigningrequest-signing-controller"
    watches = (Watch(resource_of(CertificateSigningRequest), lambda request: (key_of(request),)),)

    def __init__(
        self, *, client: Client, informers: InformerFactory, clock: Clock, authorities: Mapping[str, Authority]
    ) -> None:
        """Create the controller; `authorities` maps signer names to CAs."""
        self._requests, self._clock = client.of(CertificateSigningRequest), clock
        self._known = informers.of(CertificateSigningRequest).lister
        self._authorities = authorities

    async def reconcile(self, key: Key) -> None:
        request = self._known.by_key(key)
        if request is None or not is_due(request):
            return
        authority = self._authorities.get(request.spec.signerName)
        if authority is None:
            return
        try:
            await self._requests.update_status(answered(request, authority, self._clock.now()))
        except UnreadableRequest as error:
            log.warning("not signing certificate signing request %s: %s", key.name, error)
        except errors.NotFound:
            return


def authorities_of(config: ControllerConfig) -> dict[str, Authority]:
    pair, most_s = (
        (config.cluster_signing_cert_file, config.cluster_signing_key_file),
        config.cluster_signing_duration_s,
    )
    files = config.cluster_signing_files or (dict.fromkeys(SIGNERS, pair) if all(pair) else {})
    return {signer: Authority(Path(cert), Path(key), most_s) for signer, (cert, key) in files.items()}


def make(parts: Parts) -> CsrSigningController | None:
    authorities = authorities_of(parts.config)
    if not authorities:
        return None
    client = parts.client_for(CsrSigningController.name)
    return CsrSigningController(client=client, informers=parts.informers, clock=parts.clock, authorities=authorities)
