"""Key pairs in files: one file per certificate, and a symbolic link with a fixed name to the current one."""

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
    """Stores key pairs in a directory; `name` is kubelet-client or kubelet-server."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name

    @property
    def current(self) -> Path:
        """Path of the current pair, which may not exist yet."""
        return self._directory / f"{self._name}-current.pem"

    def read(self) -> KeyPair | None:
        """Return the current pair, or None if there is no usable one."""
        try:
            pair = split(self.current.read_bytes())
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self.current)
            return pair
        except (OSError, ValueError) as error:
            if self.current.exists():
                log.warning("cannot use certificate %s: %s", self.current, error)
            return None

    def write(self, pair: KeyPair, now: float) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d-%H-%M-%S")
        path, link = self._directory / f"{self._name}-{stamp}.pem", self._directory / f"{self._name}-updated.pem"
        write_private(path, pair.certificate.rstrip() + b"\n" + pair.key)
        link.unlink(missing_ok=True)
        link.symlink_to(path.name)
        link.replace(self.current)


def split(pem: bytes) -> KeyPair:
    """Return certificates and key of a PEM file. Raise ValueError if either is missing."""
    blocks = list(read_blocks(pem))
    keys = [block.encode() for block in blocks if block.type.endswith(PRIVATE_KEY_SUFFIX)]
    certificates = [block.encode() for block in blocks if block.type == CERTIFICATE]
    if not keys or not certificates:
        raise ValueError("want a certificate and its key")
    return KeyPair(b"".join(certificates), keys[0])
