"""The settings of a node's pod network, its errors, and the names of links, tables and hardware addresses, which are
derived from the bridge and the pod, so that leftovers are recognized by them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface

from sampan.runtimes.contract import RuntimeFailure

_BRIDGE = re.compile(r"[a-z][a-z0-9]{0,7}")
"""An interface name has at most 15 characters: the bridge, a dash, and six for the pod. The bridge contains no dash, so
that its links cannot be mistaken for those of another bridge.
"""
_FAILED = "FailedCreatePodSandBox"
_NOT_READY = "NetworkPluginNotReady"


def check_bridge(name: str) -> None:
    if not _BRIDGE.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a bridge name: want a lower-case letter and up to 7 lower-case letters or digits"
        )


def bridge_for(identity: str) -> str:
    """Return a stable bridge name for one of several nodes on a machine."""
    return f"sp{_digest(identity)[:6]}"


def link_for(bridge: str, uid: str, used: Container[str] = ()) -> str:
    """Return the name of the host end of a pod's veth pair."""
    name, attempt = "", 0
    while not name or name in used:
        name, attempt = f"{bridge}-{_digest(f'{uid} {attempt}')[:6]}", attempt + 1
    return name


def is_link_of(bridge: str, name: str) -> bool:
    return name.startswith(f"{bridge}-")


def table_for(bridge: str) -> str:
    return f"sampan-pods-{bridge}"


def mark_for(bridge: str) -> str:
    """Return the comment that marks Sampan's rules in the chains of other firewalls."""
    return f"sampan: pods of {bridge}"


def hardware_for(address: str) -> str:
    """Return a hardware address derived from the IP address, so that neighbor caches stay correct when the IP address
    moves to another pod."""
    packed = ip_interface(address).ip.packed
    last = packed if len(packed) == 4 else hashlib.sha256(packed).digest()[:4]
    return ":".join(f"{byte:02x}" for byte in b"\x0a\x58" + last)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeConfig:
    bridge: str = "sampan0"
    """The name of the bridge, which is also part of the names of pod links, the nftables table and rule comments. Each
    node on a machine needs its own."""
    cluster_cidrs: Sequence[str] = ()
    """Pod CIDRs of the cluster, to which traffic is not masqueraded. If empty, only the node's own pod CIDRs count."""
    mtu: int = 0
    """The MTU; 0 means that of the link of the default route."""

    def __post_init__(self) -> None:
        check_bridge(self.bridge)


def network_failure(message: str) -> RuntimeFailure:
    return RuntimeFailure(_FAILED, message)


def not_ready_failure(message: str) -> RuntimeFailure:
    return RuntimeFailure(_NOT_READY, message)
