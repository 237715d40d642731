"""The kubelets' ports: what `sampan up` gives its nodes, and what the flags of `sampan kubelet` say."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sampan.cli.cluster_dir import write_private
from sampan.cli.component_port import tls_of
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.server.listening import tls_context
from sampan.kubelet.server.ports import PortsConfig
from sampan.kubelet.server.view import ServerSettings

_FILE = "kubelet-server.pem"

MakePorts = Callable[[AgentConfig, list[str]], PortsConfig]
"""For a node and its addresses."""


def cluster_ports(ca: tuple[Path, Path], client_ca: Path | None) -> MakePorts:
    """With certificates of the cluster's own CA."""

    def made(config: AgentConfig, addresses: list[str]) -> PortsConfig:
        path = config.root / "pki" / _FILE
        _issue(ca, config.name, addresses, path)
        return PortsConfig(tls=tls_context(path, path, client_ca), port=config.port)

    return made


def _issue(ca: tuple[Path, Path], name: str, addresses: list[str], path: Path) -> None:
    from sampan.machinery import certificates

    signer = certificates.KeyPair(ca[0].read_bytes(), ca[1].read_bytes())
    wanted = certificates.Request(
        common_name=f"system:node:{name}",
        organizations=["system:nodes"],
        dns_names=[name, "localhost"],
        addresses=sorted({*addresses, "127.0.0.1"}),
        is_server=True,
    )
    pair = certificates.issue(signer, wanted, now=time.time())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, pair.certificate + pair.key)


def flag_ports(found: Mapping[str, Any], config: AgentConfig) -> PortsConfig:
    """As the flags, or the configuration file, of one kubelet say."""
    certificate, key = found["tls-cert-file"], found["tls-private-key-file"]
    if found["rotate-server-certificates"] and not certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # nobody is served until the cluster has signed
    else:
        context = tls_of(Path(certificate) if certificate else None, Path(key) if key else None, name=config.name)
    if found["client-ca-file"]:
        context.load_verify_locations(found["client-ca-file"])
        context.verify_mode = ssl.CERT_OPTIONAL
    return PortsConfig(
        tls=context,
        address=found["address"],
        port=found["port"],
        read_only_port=found["read-only-port"],
        cadvisor_port=found["cadvisor-port"],
        allows_anonymous=found["anonymous-auth"],
        settings=ServerSettings(has_debugging=found["enable-debugging-handlers"]),
    )


__all__ = ["MakePorts", "cluster_ports", "flag_ports"]
