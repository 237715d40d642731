"""certificatesigningrequest-cleaner-controller, which deletes completed requests and requests that stay pending."""

from __future__ import annotations

from sampan.api.types.certificates_v1 import CertificateSigningRequest
from sampan.api.values.times import parse_time
from sampan.controllers.security.csr_approver import APPROVED, DENIED, FAILED
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

_DONE_S, _PENDING_S = 3600.0, 24 * 3600.0
_TIMESTAMP_MARGIN_S = 1.0
"""Seconds that are added to each wait, because API timestamps have a resolution of one second."""


def expires_in_s(request: CertificateSigningRequest, now: float) -> float:
    """Return the seconds until the request is deleted; negative if it is due."""
    if not request.status.conditions:
        return _compute_remaining_s(request.metadata.creationTimestamp, _PENDING_S, now)
    ends = [_condition_expires_in_s(request, kind, updated, now) for kind, updated in _conditions(request)]
    return min([*ends, _certificate_expires_in_s(request, now)])


def _conditions(request: CertificateSigningRequest) -> list[tuple[str, str | None]]:
    return [(condition.type, condition.lastUpdateTime) for condition in request.status.conditions]


def _condition_expires_in_s(request: CertificateSigningRequest, kind: str, updated: str | None, now: float) -> float:
    if kind in (DENIED, FAILED):
        return _compute_remaining_s(updated, _DONE_S, now)
    if kind != APPROVED:
        return float("inf")
    return _compute_remaining_s(updated, _DONE_S if request.status.certificate else _PENDING_S, now)


def _certificate_expires_in_s(request: CertificateSigningRequest, now: float) -> float:
    if not request.status.certificate or all(kind != APPROVED for kind, _ in _conditions(request)):
        return float("inf")
    from sampan.machinery.pki.certificates import expiry

    try:
        return expiry(request.status.certificate) - now
    except ValueError:
        return float("inf")


def _compute_remaining_s(when: str | None, seconds: float, now: float) -> float:
    return parse_time(when) + seconds - now if when else float("inf")


class CsrCleanerController:
    name = "certificatesigningrequest-cleaner-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._requests, self._clock = client.for_kind(CertificateSigningRequest), clock
        self._known = informers.for_kind(CertificateSigningRequest).lister
        self.watches = (Watch(resource_of(CertificateSigningRequest), lambda request: (key_of(request),)),)

    async def reconcile(self, key: NamespacedName) -> float | None:
        request = self._known.get_by_key(key)
        if request is None:
            return None
        remaining_s = expires_in_s(request, self._clock.now())
        if remaining_s >= 0:
            return None if remaining_s == float("inf") else remaining_s + _TIMESTAMP_MARGIN_S
        try:
            await self._requests.delete(key.name)
        except errors.NotFound:
            return None
        return None
