"""What is chosen for a node's pod network, and the one error it fails with."""

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
    """The link's name; links of pods, the table and the marks of rules have it in theirs. One for each node of a
    machine."""
    cluster_cidrs: Sequence[str] = ()
    """Where pods of other nodes are: the way there is not masqueraded. Empty: only this node's own."""
    mtu: int = 0
    """0: as the link that the default route leaves by."""

    def __post_init__(self) -> None:
        check_bridge(self.bridge)


def failed(message: str) -> RuntimeFailure:
    return RuntimeFailure(_FAILED, message)


def not_ready(message: str) -> RuntimeFailure:
    return RuntimeFailure(_NOT_READY, message)


__all__ = ["BridgeConfig", "failed", "not_ready"]
