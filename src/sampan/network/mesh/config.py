"""The settings of the network between machines, the tunnels that the kernel can create, and the MTU that follows."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import TYPE_CHECKING

from sampan.api.addresses import Network
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.host.netlink.messages import NetlinkMessage
from sampan.host.netlink.routing import encode_link_creation, encode_vxlan_creation, open_route_socket

if TYPE_CHECKING:
    from sampan.api.types.core_v1 import Node

AUTO, ROUTES, WIREGUARD, VXLAN, NONE = "auto", "routes", "wireguard", "vxlan", "none"
BACKENDS = (AUTO, ROUTES, WIREGUARD, VXLAN, NONE)
"""The values of --pod-network, the default first."""
PREFERENCE = (ROUTES, WIREGUARD, VXLAN)
"""The backends in the order in which `auto` prefers them: routes cost nothing, and WireGuard encrypts."""
OVERHEAD = {ROUTES: {4: 0, 6: 0}, WIREGUARD: {4: 60, 6: 80}, VXLAN: {4: 50, 6: 70}}
"""The bytes by which a packet of a pod grows, by backend and IP version of the machines' addresses."""
WIREGUARD_PORT = 51820
VXLAN_PORT = 4789
BRIDGE, VETH = "bridge", "veth"
_CLONE_NEWNET = 0x40000000
_PROBE = "probe0"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshConfig:
    is_own: Callable[[Node], bool]
    """Whether a node runs on this machine."""
    identity: str
    """The identity of this cluster among the clusters of the machine, from which the names of links and the metrics of
    routes are derived."""
    cluster: bytes
    """The identity of the cluster on all of its machines, from which the VXLAN network identifier is derived."""
    addresses: Sequence[str]
    """The addresses of this machine with which others reach it, the primary one first."""
    cluster_cidrs: Sequence[Network] = ()
    """The cluster CIDRs, to which the pod CIDRs of other machines must belong; none if nodes choose their pod CIDRs."""
    backend: str = AUTO
    server: str = ""
    """The host of the API server, if it runs on another machine."""
    key_file: Path
    """The file with the private key of WireGuard. It is created if it is missing."""
    namespace: NetworkNamespace = field(default_factory=NetworkNamespace)
    wireguard_port: int = WIREGUARD_PORT


def usable_backends(backend: str) -> tuple[str, ...]:
    """Return the backends that this machine offers to others: the requested one, or all that the kernel supports."""
    if backend == NONE:
        return ()
    if backend != AUTO:
        return (backend,) if backend == ROUTES or can_create(backend) else ()
    return tuple(name for name in PREFERENCE if name == ROUTES or can_create(name))


def tunnel_mtu(backend: str, underlay_mtu: int, version: int) -> int:
    """Return the MTU of packets of pods. `version` is the IP version between the machines. Pure."""
    return underlay_mtu - OVERHEAD[backend][version]


def expected_backend(config: MeshConfig, *, is_near: bool) -> str:
    """Return the backend that most packets will use. `is_near` says whether the server is in a subnet of this machine.
    Pods of nodes elsewhere learn a smaller MTU from the tunnel (path MTU discovery)."""
    usable = usable_backends(config.backend)
    if not usable or (ROUTES in usable and is_near):
        return ROUTES
    return next((name for name in usable if name != ROUTES), ROUTES)


def is_in_subnet_of(address: str, networks: Sequence[str]) -> bool:
    return any(ip_address(address) in ip_interface(network).network for network in networks)


def resolve(host: str) -> str:
    """Return the first address of a host, or an empty string."""
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except OSError:
        return ""


@functools.cache
def can_create(kind: str) -> bool:
    """Whether the kernel can create links of a kind, such as wireguard. It is tried in a new network namespace, which
    is gone afterwards; without root, the loaded and built-in modules are searched."""
    results: list[bool] = []

    def probe() -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
            results.append(_has_module(kind))
            return
        results.append(_can_add(kind))

    thread = threading.Thread(target=probe, name=f"probe for links of the kind {kind}")
    thread.start()
    thread.join()
    return bool(results and results[0])


def _can_add(kind: str) -> bool:
    with contextlib.suppress(OSError), open_route_socket() as netlink:
        netlink.send(_encode_probe(kind))
        return True
    return False


def _encode_probe(kind: str) -> NetlinkMessage:
    if kind == VXLAN:
        return encode_vxlan_creation(
            _PROBE, identifier=1, underlay=0, local="127.0.0.1", port=VXLAN_PORT, mtu=0, hardware=""
        )
    return encode_link_creation(_PROBE, kind)


def _has_module(kind: str) -> bool:
    if Path("/sys/module", kind).exists():
        return True
    release = Path("/proc/sys/kernel/osrelease").read_text().strip()
    for name in ("modules.builtin", "modules.dep"):
        with contextlib.suppress(OSError):
            if f"/{kind}.ko" in (Path("/lib/modules") / release / name).read_text():
                return True
    return False
