"""The identity and expiry in a verified TLS peer's certificate. Every server in Sampan reads certificates with this
module."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    common_name: str
    """The last one if there are several, as in Go's `pkix.Name`; "" if there is none."""
    organizations: tuple[str, ...]
    expires: float
    """The notAfter time, in seconds since the epoch."""

    def is_expired(self, now: float) -> bool:
        return now > self.expires


def read_peer(certificate: Mapping[str, Any]) -> PeerCertificate:
    """Read the result of `SSLSocket.getpeercert()` for a certificate that TLS has verified."""
    pairs = [pair for relative in certificate.get("subject", ()) for pair in relative]
    names = [str(value) for key, value in pairs if key == "commonName"]
    return PeerCertificate(
        common_name=names[-1] if names else "",
        organizations=tuple(str(value) for key, value in pairs if key == "organizationName"),
        expires=ssl.cert_time_to_seconds(certificate["notAfter"]) if "notAfter" in certificate else float("inf"),
    )
