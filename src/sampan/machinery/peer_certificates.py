"""Whom a verified TLS peer's certificate names, and until when. Every server here reads certificates with this."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    common_name: str
    """Of several the last one, as in Go's `pkix.Name`; "" if there is none."""
    organizations: tuple[str, ...]
    expires: float
    """When the certificate ends, in seconds since the epoch."""

    def is_expired(self, now: float) -> bool:
        return now > self.expires


def read_peer(certificate: Mapping[str, Any]) -> PeerCertificate:
    """Read what `SSLSocket.getpeercert()` gives for a certificate that TLS has verified."""
    pairs = [pair for relative in certificate.get("subject", ()) for pair in relative]
    names = [str(value) for key, value in pairs if key == "commonName"]
    return PeerCertificate(
        common_name=names[-1] if names else "",
        organizations=tuple(str(value) for key, value in pairs if key == "organizationName"),
        expires=ssl.cert_time_to_seconds(certificate["notAfter"]) if "notAfter" in certificate else float("inf"),
    )


__all__ = ["PeerCertificate", "read_peer"]
