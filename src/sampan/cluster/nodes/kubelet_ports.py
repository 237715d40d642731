"""The ports of kubelets: those of `sampan up`, and those defined by the flags of `sampan kubelet`."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sampan.cluster.certificate_renewal import BEFORE_S, CertificateRenewer
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.server.ports import PortsConfig, tls_context
from sampan.machinery.pki.private_files import write_private
from sampan.network.nodes import NodeAttachment

_FILE = "kubelet-server.pem"

MakePorts = Callable[[AgentConfig, NodeAttachment], PortsConfig]
"""A function that returns the ports of the kubelet of a node."""


def cluster_ports(
    ca: tuple[Path, Path], client_ca: Path | None, renewals: CertificateRenewer, *, address: str
) -> MakePorts:
    """Return a function that creates the ports of kubelets, with certificates of the cluster's CA that are renewed.
    Nodes with their own network namespace listen on their own address, other nodes on `address`."""

    def make(config: AgentConfig, attachment: NodeAttachment) -> PortsConfig:
        path, addresses = config.root / "pki" / _FILE, list(attachment.addresses)
        ends = _issue(ca, config.name, addresses, path, time.time())
        context = tls_context(path, path, client_ca)
        renewals.add(
            _ServingCertificate(ca=ca, name=config.name, addresses=addresses, path=path, context=context, ends=ends)
        )
        own = addresses[0] if attachment.namespace.path is not None else address
        return PortsConfig(tls=context, namespace=attachment.namespace, address=own, port=config.port)

    return make


@dataclass(slots=True, kw_only=True)
class _ServingCertificate:
    """The serving certificate of a node. After a renewal new connections use the new certificate."""

    ca: tuple[Path, Path]
    name: str
    addresses: list[str]
    path: Path
    context: ssl.SSLContext
    ends: float

    def renewal_time(self) -> float:
        return self.ends - BEFORE_S

    def renew(self, now: float) -> None:
        self.ends = _issue(self.ca, self.name, self.addresses, self.path, now)
        self.context.load_cert_chain(self.path)


def _issue(ca: tuple[Path, Path], name: str, addresses: list[str], path: Path, now: float) -> float:
    """Issue the certificate, and return its time of expiry."""
    from sampan.machinery.pki import certificates

    signer = certificates.KeyPair(ca[0].read_bytes(), ca[1].read_bytes())
    request = certificates.SigningRequest(
        common_name=f"system:node:{name}",
        organizations=["system:nodes"],
        dns_names=[name, "localhost"],
        addresses=sorted({*addresses, "127.0.0.1"}),
        is_server=True,
    )
    pair = certificates.issue(signer, request, now=now)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, pair.certificate + pair.key)
    return certificates.expiry(pair.certificate)
