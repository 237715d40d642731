"""The private key of WireGuard, in a file that only its owner can read."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from sampan.machinery.private_files import write_private

_LENGTH = 32


def ensure_private_key(path: Path) -> str:
    """Return the private key as base64, creating the file if it is missing or damaged."""
    try:
        text = path.read_text().strip()
        if len(base64.b64decode(text, validate=True)) == _LENGTH:
            return text
    except (OSError, UnicodeDecodeError, binascii.Error):
        pass
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    text = base64.b64encode(X25519PrivateKey.generate().private_bytes_raw()).decode()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, f"{text}\n".encode())
    return text


def public_key(private_key: str) -> str:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.from_private_bytes(base64.b64decode(private_key))
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()
