"""The TLS configuration of the secure port."""

from __future__ import annotations

import ssl
from pathlib import Path

from sampan.apiserver.config import TlsFiles
from sampan.apiserver.http.trust import SortingContext


def tls_context(files: TlsFiles, proxies: Path | None = None) -> ssl.SSLContext:
    """Return a server context. `proxies` is the CA of front proxies."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if proxies is None else SortingContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if files.is_strict else ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["http/1.1"])
    if isinstance(context, SortingContext) and proxies is not None:
        context.trust(files.client_ca, proxies)
    elif files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
