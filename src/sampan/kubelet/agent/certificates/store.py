"""Certificates with their keys in files: one of its own for each, and a link of a fixed name to the present one."""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path

from sampan.machinery.certificates import KeyPair
from sampan.machinery.pem import CERTIFICATE, PRIVATE_KEY_SUFFIX, read_blocks
from sampan.machinery.private_files import write_private

log = logging.getLogger(__name__)


class CertificateStore:
    """`name` is kubelet-client or kubelet-server."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    @property
    def current(self) -> Path:
        """Where the present pair is, once there is one."""
        return self._folder / f"{self._name}-current.pem"

    def read(self) -> KeyPair | None:
        """None: there is none, or none that can be used."""
        try:
            pair = split(self.current.read_bytes())
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self.current)
            return pair
        except (OSError, ValueError) as fault:
            if self.current.exists():
                log.warning("cannot use certificate %s: %s", self.current, fault)
            return None

    def write(self, pair: KeyPair, now: float) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d-%H-%M-%S")
        path, link = self._folder / f"{self._name}-{stamp}.pem", self._folder / f"{self._name}-updated.pem"
        write_private(path, pair.certificate.rstrip() + b"\n" + pair.key)
        link.unlink(missing_ok=True)
        link.symlink_to(path.name)
        link.replace(self.current)


def split(pem: bytes) -> KeyPair:
    """Certificates first, then the key. ValueError."""
    blocks = list(read_blocks(pem))
    keys = [block.encode() for block in blocks if block.type.endswith(PRIVATE_KEY_SUFFIX)]
    certificates = [block.encode() for block in blocks if block.type == CERTIFICATE]
    if not keys or not certificates:
        raise ValueError("want a certificate and its key")
    return KeyPair(b"".join(certificates), keys[0])


__all__ = ["CertificateStore"]
