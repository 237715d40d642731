"""The private WireGuard key of a node."""

import base64
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sampan.network.mesh.agent import ensure_private_key, public_key


def test_private_key_is_created_once_with_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "pki" / "wireguard.key"
    key = ensure_private_key(path)
    assert ensure_private_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(base64.b64decode(key)) == len(base64.b64decode(public_key(key))) == 32


def test_damaged_private_key_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "wireguard.key"
    path.write_text("rubbish")
    assert len(base64.b64decode(ensure_private_key(path))) == 32


def test_two_keys_derive_the_same_shared_secret(tmp_path: Path) -> None:
    """Both sides of a tunnel derive the same secret from their own private and the other's public key."""
    keys = [ensure_private_key(tmp_path / name) for name in ("a", "b")]
    private = [X25519PrivateKey.from_private_bytes(base64.b64decode(key)) for key in keys]
    public = [X25519PublicKey.from_public_bytes(base64.b64decode(public_key(key))) for key in keys]
    assert private[0].exchange(public[1]) == private[1].exchange(public[0])
