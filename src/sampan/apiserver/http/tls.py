"""The TLS configuration of the secure port, which verifies the certificates of clients and of front proxies."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from sampan.apiserver.config.server_config import TlsFiles
from sampan.machinery.pki.server_tls import PeerCertificate


class ClientCaContext(ssl.SSLContext):
    """The context of a server with both CAs. Session resumption is disabled, because a resumed session has no verified
    chain."""

    user_roots: frozenset[bytes] = frozenset()
    proxy_roots: frozenset[bytes] = frozenset()

    def trust(self, users: Path | None, proxies: Path) -> None:
        self.user_roots = self._load(users) if users is not None else frozenset()
        self.proxy_roots = self._load(proxies)
        self.verify_mode = ssl.CERT_OPTIONAL
        self.options |= ssl.OP_NO_TICKET
        self.num_tickets = 0

    def _load(self, bundle: Path) -> frozenset[bytes]:
        self.load_verify_locations(bundle)
        alone = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        alone.load_verify_locations(bundle)
        return frozenset(alone.get_ca_certs(binary_form=True))


def classify_client_certificate(
    connection: Any, certificate: PeerCertificate
) -> tuple[PeerCertificate | None, PeerCertificate | None]:
    """Return the certificate twice: first if the client CA has signed it, then if the CA of front proxies has;
    otherwise None.

    `connection` is the SSL object.
    """
    context = connection.context if connection is not None else None
    if not isinstance(context, ClientCaContext):
        return certificate, None
    root = _root(connection)
    return certificate if root in context.user_roots else None, certificate if root in context.proxy_roots else None


def _root(connection: Any) -> bytes:
    """Return the root of the verified chain in DER. The method is public from Python 3.13 on."""
    chain = (getattr(connection, "get_verified_chain", None) or connection._sslobj.get_verified_chain)()
    if not chain:
        return b""
    last = chain[-1]
    return last if isinstance(last, bytes) else bytes(last.public_bytes(_DER))


_DER = 2
"""The value of the ssl module's constant for DER encoding in `public_bytes`."""


def tls_context(files: TlsFiles, proxies: Path | None = None) -> ssl.SSLContext:
    """Return a server context. `proxies` is the CA of front proxies."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if proxies is None else ClientCaContext(ssl.PROTOCOL_TLS_SERVER)
    files.settings.apply(context)
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["http/1.1"])
    if isinstance(context, ClientCaContext) and proxies is not None:
        context.trust(files.client_ca, proxies)
    elif files.client_ca is not None:
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
