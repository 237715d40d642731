"""certificatesigningrequest-signing-controller: what is approved for a signer of the cluster gets its certificate."""

from __future__ import annotations

from pathlib import Path

from sampan.api import times
from sampan.api.types.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from sampan.controllers.descriptor import Parts
from sampan.controllers.security.csr_rules import APPROVED, DENIED, FAILED, SIGNERS, asked_of, has, read
from sampan.controllers.security.issuing import Authority
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import Key, key_of


def is_due(request: CertificateSigningRequest) -> bool:
    """Approved, for one of our signers, and not dealt with yet."""
    if request.spec.signerName not in SIGNERS or request.status.certificate:
        return False
    failed = any(found.type == FAILED and found.status in ("", "True") for found in request.status.conditions)
    return has(request, APPROVED) and not has(request, DENIED) and not failed


def answered(request: CertificateSigningRequest, authority: Authority, now: float) -> CertificateSigningRequest:
    """A copy with the certificate, or with the reason why there can be none."""
    csr, spec, found = read(request), request.spec, copy_of(request)
    if fault := SIGNERS[spec.signerName](asked_of(csr), spec.usages):
        condition = CertificateSigningRequestCondition(
            type=FAILED,
            status="True",
            reason="SignerValidationFailure",
            message=fault,
            lastUpdateTime=times.format_time(now),
        )
        found.status.conditions.append(condition)
    else:
        found.status.certificate = authority.sign(csr, spec.usages, spec.expirationSeconds, now)
    return found


class CsrSigningController:
    name = "certificatesigningrequest-signing-controller"
    watches = (Watch(resource_of(CertificateSigningRequest), lambda request: (key_of(request),)),)

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, authority: Authority) -> None:
        self._requests, self._known = (
            client.of(CertificateSigningRequest),
            informers.of(CertificateSigningRequest).lister,
        )
        self._clock, self._authority = clock, authority

    async def reconcile(self, key: Key) -> None:
        request = self._known.by_key(key)
        if request is None or not is_due(request):
            return
        try:
            await self._requests.update_status(answered(request, self._authority, self._clock.now()))
        except errors.NotFound:
            return


def make(parts: Parts) -> CsrSigningController | None:
    config = parts.config
    certificate, key = config.cluster_signing_cert_file, config.cluster_signing_key_file
    if not (certificate and key):
        return None
    authority = Authority(Path(certificate).read_bytes(), Path(key).read_bytes(), config.cluster_signing_duration_s)
    client = parts.client_for(CsrSigningController.name)
    return CsrSigningController(client=client, informers=parts.informers, clock=parts.clock, authority=authority)
