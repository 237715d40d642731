"""The keys and certificates of a cluster, which are kept in its data directory and renewed before they expire.

A renewed CA keeps its key, so that clients which trust the old CA certificate accept what the new one signs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sampan.api.addresses import is_address
from sampan.apiserver.authn.front_proxy import FrontProxySettings
from sampan.apiserver.config.server_config import ServerConfig
from sampan.cluster.certificate_renewal import BEFORE_S
from sampan.machinery.pki.private_files import write_private

if TYPE_CHECKING:
    from sampan.machinery.pki.certificates import KeyPair, SigningRequest

CA, SERVER, ADMIN, ACCOUNTS = "ca", "apiserver", "admin", "sa"
KUBELET_CLIENT = "apiserver-kubelet-client"
"""The client certificate with which the API server authenticates to kubelets."""
KUBELET_CLIENT_USER = "kube-apiserver-kubelet-client"
"""The common name of the certificate `apiserver-kubelet-client`, as in kubeadm. A role binding grants this user the
permissions that it needs."""
PROXY_CA, PROXY_CLIENT = "front-proxy-ca", "front-proxy-client"
"""The CA of authenticating proxies, which pass user names in headers, and the client certificate with which the API
server authenticates to aggregated API servers. This CA differs from the CA of users, so that no user can impersonate
other users with a client certificate."""

_SIGNED = {CA: (SERVER, ADMIN, KUBELET_CLIENT), PROXY_CA: (PROXY_CLIENT,)}
"""The certificates that each CA signs."""
_SUBJECTS = {KUBELET_CLIENT: f"CN={KUBELET_CLIENT_USER}"}
"""Required subjects of certificates whose subject has changed: earlier versions issued this certificate for the group
system:masters."""
_CA_NAMES = {CA: "kubernetes", PROXY_CA: "front-proxy-ca"}


class _CertificateSummary(msgspec.Struct):
    """A summary of a certificate file. It is stored because parsing certificates requires a slow import."""

    expiry: float
    names: list[str] = []
    subject: str = ""
    """The subject in `_SUBJECTS` at the time of issue. A certificate with another subject is replaced at the next
    start."""


@dataclass(frozen=True, slots=True)
class Pki:
    directory: Path

    def certificate(self, name: str) -> Path:
        return self.directory / (f"{name}.pub" if name == ACCOUNTS else f"{name}.crt")

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    @property
    def is_foreign(self) -> bool:
        """Whether the directory has a serving certificate and key that another program put there."""
        has_pair = self.certificate(SERVER).exists() and self.key(SERVER).exists()
        return has_pair and not self.key(CA).exists()

    def ensure(self, *, names: Sequence[str], now: float) -> None:
        """Create certificates that are missing, about to expire, or lack one of the server's `names`."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        summaries = self._read_summaries()
        called = sorted(names)
        every = [name for ca, signed in _SIGNED.items() for name in (ca, *signed)]
        bad = [
            name for name in every if not self._is_good(name, summaries, now, names=called if name == SERVER else ())
        ]
        if bad:
            self._make(bad, summaries, called, now)

    def renewal_time(self) -> float:
        """Return the time at which the first certificate should be renewed."""
        return min((certificate.expiry for certificate in self._read_summaries().values()), default=0) - BEFORE_S

    def _is_good(
        self, name: str, summaries: dict[str, _CertificateSummary], now: float, names: Sequence[str] = ()
    ) -> bool:
        certificate = summaries.get(name)
        files = self.certificate(name).exists() and self.key(name).exists()
        if certificate is None or not files or certificate.subject != _SUBJECTS.get(name, ""):
            return False
        return certificate.expiry - now > BEFORE_S and set(names) <= set(certificate.names)

    def _make(
        self, bad: Sequence[str], summaries: dict[str, _CertificateSummary], names: list[str], now: float
    ) -> None:
        from sampan.machinery.pki.certificates import make_key

        for ca in _SIGNED:
            self._make_signed(ca, bad, summaries, names, now)
        if not self.key(ACCOUNTS).exists():
            self._write(ACCOUNTS, make_key(), summaries, float("inf"), [])
        write_private(self.directory / "kept.json", msgspec.json.encode(summaries))

    def _make_signed(
        self, by: str, bad: Sequence[str], summaries: dict[str, _CertificateSummary], names: list[str], now: float
    ) -> None:
        """Create a CA if necessary, and the certificates that it signs."""
        from sampan.machinery.pki import certificates as made

        if by in bad:
            is_known = self.key(by).exists() and by in summaries
            ca = made.make_ca(_CA_NAMES[by], now=now, key=self.key(by).read_bytes() if is_known else None)
            self._write(by, ca, summaries, made.expiry(ca.certificate), [])
            bad = bad if is_known else _SIGNED[by]
        ca = made.KeyPair(self.certificate(by).read_bytes(), self.key(by).read_bytes())
        requests = _requests(names)
        for name in _SIGNED[by]:
            if name in bad:
                pair = made.issue(ca, requests[name], now=now)
                self._write(name, pair, summaries, made.expiry(pair.certificate), names if name == SERVER else [])

    def _write(
        self, name: str, pair: KeyPair, summaries: dict[str, _CertificateSummary], expiry: float, names: list[str]
    ) -> None:
        write_private(self.certificate(name), pair.certificate)
        write_private(self.key(name), pair.key)
        if expiry != float("inf"):
            summaries[name] = _CertificateSummary(expiry, names, _SUBJECTS.get(name, ""))

    def _read_summaries(self) -> dict[str, _CertificateSummary]:
        try:
            return msgspec.json.decode((self.directory / "kept.json").read_bytes(), type=dict[str, _CertificateSummary])
        except (FileNotFoundError, msgspec.MsgspecError):
            return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PkiRenewal:
    """Renews the PKI while the cluster runs. The API server reloads its files; `on_renewed` is called for other
    users."""

    pki: Pki
    names: Sequence[str]
    on_renewed: Callable[[], None] = lambda: None

    def renewal_time(self) -> float:
        return self.pki.renewal_time()

    def renew(self, now: float) -> None:
        self.pki.ensure(names=self.names, now=now)
        self.on_renewed()


def _requests(names: Sequence[str]) -> dict[str, SigningRequest]:
    from sampan.machinery.pki.certificates import SigningRequest

    return {
        SERVER: SigningRequest(
            common_name="kube-apiserver",
            dns_names=[name for name in names if not is_address(name)],
            addresses=[name for name in names if is_address(name)],
            is_server=True,
        ),
        ADMIN: SigningRequest(common_name="kubernetes-admin", organizations=["system:masters"], is_client=True),
        KUBELET_CLIENT: SigningRequest(common_name=KUBELET_CLIENT_USER, is_client=True),
        PROXY_CLIENT: SigningRequest(common_name=PROXY_CLIENT, is_client=True),
    }


def with_front_proxy(server: ServerConfig, pki: Pki) -> ServerConfig:
    """Add the front proxy settings of the cluster's own PKI, unless flags configure a front proxy CA or client
    certificate."""
    if server.front_proxy is not None or server.proxy_client is not None:
        return server
    settings = FrontProxySettings(
        ca=pki.certificate(PROXY_CA),
        allowed_names=(PROXY_CLIENT,),
        username_headers=("X-Remote-User",),
        group_headers=("X-Remote-Group",),
        extra_prefixes=("X-Remote-Extra-",),
    )
    client = (pki.certificate(PROXY_CLIENT), pki.key(PROXY_CLIENT))
    return dataclasses.replace(server, front_proxy=settings, proxy_client=client)
