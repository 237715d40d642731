"""The settings of a node's pod network, and the errors it raises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.network.pods.names import check_bridge
from sampan.runtimes.contract import RuntimeFailure

_FAILED = "FailedCreatePodSandBox"
_NOT_READY = "NetworkPluginNotReady"


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


def failed(message: str) -> RuntimeFailure:
    return RuntimeFailure(_FAILED, message)


def not_ready(message: str) -> RuntimeFailure:
    return RuntimeFailure(_NOT_READY, message)
