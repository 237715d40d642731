"""The address of a server and the credentials for it, from a kubeconfig or from flags."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sampan.machinery.client.exec_credentials import ClientCredentials, CredentialSource

_TOKEN_RELOAD_INTERVAL_S = 60.0
"""How long a token from a file is used before the file is read again."""


class AccessError(ValueError):
    """A certificate, key or token cannot be used; the message says which and why."""


@dataclass(slots=True, kw_only=True)
class Access:
    server: str
    ca_pem: bytes = b""
    """The CA bundle that verifies the server; empty for the system's CAs."""
    is_insecure: bool = False
    """Whether to skip the verification of the server's certificate."""
    tls_server_name: str = ""
    proxy_url: str = ""
    client_cert_pem: bytes = b""
    client_key_pem: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """A file that contains a bearer token. It is read again every minute, and takes precedence over `token`."""
    username: str = ""
    password: str = field(default="", repr=False)
    credential_source: CredentialSource | None = None
    """The source of tokens or client certificates that expire: an exec plugin or an OpenID Connect provider."""
    impersonation: Sequence[tuple[str, str]] = ()
    """The impersonation headers of every request, as pairs of name and value."""
    _read_at: float = field(default=float("-inf"), repr=False)
    _read: str = field(default="", repr=False)

    def headers(self) -> list[tuple[str, str]]:
        """Return the authentication and impersonation headers."""
        headers = list(self.impersonation)
        if token := self._present_token():
            headers.append(("Authorization", f"Bearer {token}"))
        elif self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {pair}"))
        return headers

    def client_certificate(self) -> tuple[bytes, bytes]:
        """Return the client certificate and its key; both are empty if there is none."""
        if self.client_cert_pem or self.credential_source is None:
            return self.client_cert_pem, self.client_key_pem
        credentials = self._fetch_credentials(self.credential_source)
        return credentials.client_cert_pem, credentials.client_key_pem

    def _fetch_credentials(self, source: CredentialSource) -> ClientCredentials:
        from sampan.machinery.client.exec_credentials import CredentialError

        try:
            return source.credentials()
        except CredentialError as error:
            raise AccessError(str(error)) from error

    def _present_token(self) -> str:
        if self.token_file is None:
            if self.token or self.credential_source is None:
                return self.token
            return self._fetch_credentials(self.credential_source).token
        if time.monotonic() - self._read_at > _TOKEN_RELOAD_INTERVAL_S:
            try:
                self._read = self.token_file.read_text().strip()
            except (OSError, ValueError) as error:
                if not self._read:
                    reason = getattr(error, "strerror", None) or error
                    raise AccessError(f"token file {self.token_file}: {reason}") from error
            self._read_at = time.monotonic()
        return self._read


def tls_context(access: Access) -> ssl.SSLContext | bool:
    """Return the `ssl` argument for aiohttp: a context, or True for a plain HTTP server."""
    if not access.server.startswith("https:"):
        return True
    try:
        context = verifying_context(access.ca_pem)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise AccessError(f"the certificate authority cannot be used: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    if access.is_insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    cert_pem, key_pem = access.client_certificate()
    if cert_pem:
        _load_client_certificate(context, cert_pem, key_pem)
    return context


def verifying_context(bundle: bytes) -> ssl.SSLContext:
    """Return a context that verifies servers with a CA bundle, or with the CAs of the system if it is empty. As in Go,
    any certificate of the bundle is trusted, even one of a server itself."""
    context = ssl.create_default_context(cadata=bytes(bundle).decode() if bundle else None)
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    return context


def _load_client_certificate(context: ssl.SSLContext, cert_pem: bytes, key_pem: bytes) -> None:
    """Load the client certificate by way of a private temporary file, because the ssl module only reads files."""
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cert_pem.rstrip() + b"\n" + key_pem)
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise AccessError(f"the client certificate and its key cannot be used: {error}") from error
    finally:
        Path(name).unlink()
