"""The optional dependencies: libraries that only some features need, and the extra that installs each."""

from __future__ import annotations

from importlib.util import find_spec

_EXTRAS = {
    "grpc": ("grpc", "gRPC (etcd, containerd and CRI-O, device plugins, CSI and DRA drivers, gRPC probes)"),
    "nacl": ("secretbox", "the encryption provider secretbox"),
    "dbus_fast": ("systemd", "graceful node shutdown through systemd-logind"),
}
"""For each module, the extra that installs it and the features that need it."""


class MissingExtra(ImportError):
    """A library of an extra is not installed. The message names the extra."""


def require(module: str) -> None:
    """Raise MissingExtra unless the module of an extra is installed."""
    extra, feature = _EXTRAS[module]
    if find_spec(module) is None:
        raise MissingExtra(f"{feature} needs an extra of Sampan: pip install 'sampan[{extra}]'", name=module)
