"""TLS settings for connections to an extender."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from sampan.machinery.client.access import Access, tls_context


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


def context_of(url: str, tls: TlsSettings) -> ssl.SSLContext | bool:
    """Return the value of aiohttp's `ssl` parameter.

    Raise ValueError for contradictory settings and OSError for a file that cannot be read or is malformed.
    """
    access = Access(
        server=url,
        ca_pem=tls.ca_data or _file(tls.ca_file),
        is_insecure=tls.insecure,
        client_cert_pem=tls.cert_data or _file(tls.cert_file),
        client_key_pem=tls.key_data or _file(tls.key_file),
    )
    if access.is_insecure and access.ca_pem:
        raise ValueError("specifying a root certificates file with the insecure flag is not allowed")
    if bool(access.client_cert_pem) != bool(access.client_key_pem):
        raise ValueError("a client certificate and its key must be given together")
    return tls_context(access)


def _file(name: str) -> bytes:
    return Path(name).read_bytes() if name else b""
