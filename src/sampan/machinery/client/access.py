"""How a server is reached and who one is to it, whether that came from a kubeconfig or from flags."""

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TOKEN_KEPT_S = 60.0
"""How long a token from a file is used before the file is read again."""


class AccessError(ValueError):
    """A certificate, key or token that cannot be used; the message says which and why."""


@dataclass(slots=True, kw_only=True)
class Access:
    server: str
    ca_pem: bytes = b""
    """Who vouches for the server; empty: the system's authorities."""
    is_insecure: bool = False
    """The server's certificate is not checked."""
    tls_server_name: str = ""
    proxy_url: str = ""
    client_cert_pem: bytes = b""
    client_key_pem: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Read again now and then; goes before `token`."""
    username: str = ""
    password: str = field(default="", repr=False)
    impersonation: Sequence[tuple[str, str]] = ()
    """Headers that ask the server to act for another user."""
    _read_at: float = field(default=float("-inf"), repr=False)
    _read: str = field(default="", repr=False)

    def headers(self) -> list[tuple[str, str]]:
        """Those that say who is asking."""
        found = list(self.impersonation)
        if token := self._present_token():
            found.append(("Authorization", f"Bearer {token}"))
        elif self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            found.append(("Authorization", f"Basic {pair}"))
        return found

    def _present_token(self) -> str:
        if self.token_file is None:
            return self.token
        if time.monotonic() - self._read_at > _TOKEN_KEPT_S:
            try:
                self._read = self.token_file.read_text().strip()
            except OSError as fault:
                if not self._read:
                    raise AccessError(f"token file {self.token_file}: {fault.strerror or fault}") from fault
            self._read_at = time.monotonic()
        return self._read


def tls_context(access: Access) -> ssl.SSLContext | bool:
    """What aiohttp takes as `ssl`: a context, or True for what needs none."""
    if not access.server.startswith("https:"):
        return True
    context = (
        ssl.create_default_context(cadata=access.ca_pem.decode() or None)
        if access.ca_pem
        else (ssl.create_default_context())
    )
    context.set_alpn_protocols(["http/1.1"])
    if access.is_insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if access.client_cert_pem:
        _load_client_certificate(context, access)
    return context


def _load_client_certificate(context: ssl.SSLContext, access: Access) -> None:
    """By way of a file that only we can read and that is gone at once: the ssl module takes nothing else."""
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(access.client_cert_pem.rstrip() + b"\n" + access.client_key_pem)
        context.load_cert_chain(name)
    except ssl.SSLError as fault:
        raise AccessError(f"the client certificate and its key cannot be used: {fault}") from fault
    finally:
        Path(name).unlink()


__all__ = ["Access", "AccessError", "tls_context"]
