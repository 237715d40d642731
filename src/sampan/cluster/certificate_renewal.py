"""Renew the certificates of the cluster's CA in time while the cluster runs."""

from __future__ import annotations

import logging
from typing import Protocol

from sampan.host.clock import Clock

log = logging.getLogger(__name__)

BEFORE_S = 60 * 24 * 3600
"""How long before their expiry certificates are renewed."""
_MAX_CHECK_INTERVAL_S = 3600
_RETRY_S = 300


class RenewableCertificate(Protocol):
    def renewal_time(self) -> float:
        """Return the time at which to renew the certificate, in seconds since the epoch."""

    def renew(self, now: float) -> None:
        """Issue the certificate again and start using it, which takes some milliseconds. Raise OSError if the renewal
        fails now, and ValueError if the CA is not usable."""


class CertificateRenewer:
    """Renews certificates in `run()` until cancelled. The certificates are checked at least once per hour, so that
    added ones and changes of the wall clock are noticed."""

    def __init__(self) -> None:
        self._all: list[RenewableCertificate] = []

    def add(self, renewable: RenewableCertificate) -> None:
        self._all.append(renewable)

    async def run(self, clock: Clock) -> None:
        while True:
            await clock.sleep(self._renew_due(clock.now()))

    def _renew_due(self, now: float) -> float:
        """Renew the certificates that are due, and return the seconds until the next check. A failure does not affect
        other certificates."""
        soonest = min(
            (self._renew_if_due(renewable, now) for renewable in self._all), default=now + _MAX_CHECK_INTERVAL_S
        )
        return min(max(soonest - now, _RETRY_S), _MAX_CHECK_INTERVAL_S)

    def _renew_if_due(self, renewable: RenewableCertificate, now: float) -> float:
        """Renew a certificate if it is due, and return the time of the next check, which is `now` after a failure."""
        try:
            if renewable.renewal_time() <= now:
                renewable.renew(now)
            return renewable.renewal_time()
        except (OSError, ValueError) as error:
            log.error("cannot renew a certificate: %s", error)
            return now
