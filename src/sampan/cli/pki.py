"""The keys and certificates of a cluster, kept in its folder and renewed before they expire."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sampan.cli.cluster_dir import write_private

if TYPE_CHECKING:
    from sampan.machinery.certificates import KeyPair

_RENEW_BEFORE_S = 60 * 24 * 3600
CA, SERVER, ADMIN, ACCOUNTS = "ca", "apiserver", "admin", "sa"
KUBELET_CLIENT = "apiserver-kubelet-client"
"""By which kubelets know the API server."""


class _Kept(msgspec.Struct):
    """What is known of the files without reading certificates, which needs a slow import."""

    expiry: float
    names: list[str] = []


@dataclass(frozen=True, slots=True)
class Pki:
    folder: Path

    def certificate(self, name: str) -> Path:
        return self.folder / (f"{name}.pub" if name == ACCOUNTS else f"{name}.crt")

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def ensure(self, *, names: Sequence[str], now: float) -> None:
        """Make what is missing, about to expire, or does not name what the server is called (`names`)."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        kept = self._kept()
        clients = all(self._is_good(name, kept, now) for name in (CA, ADMIN, KUBELET_CLIENT))
        if clients and self._is_good(SERVER, kept, now, names):
            return
        self._make(kept, sorted(names), now)

    def _is_good(self, name: str, kept: dict[str, _Kept], now: float, wanted: Sequence[str] = ()) -> bool:
        known = kept.get(name)
        files = self.certificate(name).exists() and self.key(name).exists()
        return bool(known and files and known.expiry - now > _RENEW_BEFORE_S and set(wanted) <= set(known.names))

    def _make(self, kept: dict[str, _Kept], names: list[str], now: float) -> None:
        from sampan.machinery import certificates as made

        if not self._is_good(CA, kept, now):
            ca = made.make_ca("kubernetes", now=now)
            self._write(CA, ca, kept, made.expiry(ca.certificate), [])
        ca = made.KeyPair(self.certificate(CA).read_bytes(), self.key(CA).read_bytes())
        addresses = [name for name in names if _is_address(name)]
        server = made.Request(
            common_name="kube-apiserver",
            dns_names=[name for name in names if not _is_address(name)],
            addresses=addresses,
            is_server=True,
        )
        admin = made.Request(common_name="kubernetes-admin", organizations=["system:masters"], is_client=True)
        kubelets = made.Request(
            common_name="kube-apiserver-kubelet-client", organizations=["system:masters"], is_client=True
        )
        for name, request, called in ((SERVER, server, names), (ADMIN, admin, []), (KUBELET_CLIENT, kubelets, [])):
            pair = made.issue(ca, request, now=now)
            self._write(name, pair, kept, made.expiry(pair.certificate), called)
        if not self.key(ACCOUNTS).exists():
            self._write(ACCOUNTS, made.make_key(), kept, float("inf"), [])
        write_private(self.folder / "kept.json", msgspec.json.encode(kept))

    def _write(self, name: str, pair: KeyPair, kept: dict[str, _Kept], expiry: float, names: list[str]) -> None:
        write_private(self.certificate(name), pair.certificate)
        write_private(self.key(name), pair.key)
        if expiry != float("inf"):
            kept[name] = _Kept(expiry, names)

    def _kept(self) -> dict[str, _Kept]:
        try:
            return msgspec.json.decode((self.folder / "kept.json").read_bytes(), type=dict[str, _Kept])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
