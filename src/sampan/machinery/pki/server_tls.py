"""TLS of servers: the versions and cipher suites that they accept, by the names that Kubernetes uses in flags, and the
identity and expiry in the certificate of a verified peer, which every server in Sampan reads with this module.

The counterpart is `k8s.io/component-base/cli/flag/ciphersuites_flag.go`. As in Go, the suites of TLS 1.3 cannot be
restricted: their names are accepted, and all three are always offered.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

VERSIONS: Final = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
"""The minimum versions. The older ones are not offered: OpenSSL refuses them in its default configuration."""
DEFAULT_VERSION: Final = "VersionTLS12"

_TLS_13_CIPHERS: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_OPENSSL_NAMES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
"""The suites of TLS 1.2. Those with RC4 and 3DES are missing, because OpenSSL no longer has them."""


class UnknownTlsName(ValueError):
    """A TLS version or cipher suite does not exist or is not supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTlsSettings:
    """The TLS versions and cipher suites of the connections that a server accepts."""

    minimum_version: ssl.TLSVersion = VERSIONS[DEFAULT_VERSION]
    ciphers: str | None = None
    """The suites of TLS 1.2 in the notation of OpenSSL; None for its default."""

    @classmethod
    def parse(cls, *, min_version: str = DEFAULT_VERSION, cipher_suites: Sequence[str] = ()) -> ServerTlsSettings:
        """Return the settings. Raise UnknownTlsName. If all suites are of TLS 1.3, that is the minimum version."""
        version = _version(min_version or DEFAULT_VERSION)
        if not cipher_suites:
            return cls(minimum_version=version)
        names = [name for suite in cipher_suites if (name := _openssl_name(suite))]
        if not names:
            return cls(minimum_version=ssl.TLSVersion.TLSv1_3)
        return cls(minimum_version=version, ciphers=":".join(names))

    def apply(self, context: ssl.SSLContext) -> None:
        context.minimum_version = self.minimum_version
        if self.ciphers is not None:
            context.set_ciphers(self.ciphers)


def server_context(settings: ServerTlsSettings | None = None) -> ssl.SSLContext:
    """Return the context of a server without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (settings or ServerTlsSettings()).apply(context)
    return context


def _version(name: str) -> ssl.TLSVersion:
    if name not in VERSIONS:
        raise UnknownTlsName(f"there is no {name!r}; supported: {', '.join(VERSIONS)}")
    return VERSIONS[name]


def _openssl_name(suite: str) -> str:
    """Return the name of a suite of TLS 1.2, or an empty string for one of TLS 1.3."""
    if suite in _TLS_13_CIPHERS:
        return ""
    if suite not in _OPENSSL_NAMES:
        raise UnknownTlsName(f"cipher suite {suite} does not exist or is not supported")
    return _OPENSSL_NAMES[suite]


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
