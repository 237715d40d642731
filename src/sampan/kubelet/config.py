"""What a kubelet is told."""

from dataclasses import dataclass

KUBELET_VERSION = "v1.36.4"
PORT = 10250


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig:
    lease_duration_s: int = 40
    renew_s: float = 10.0
    """How often the lease is renewed."""
    status_s: float = 10.0
    """How often a real node's status is looked at; that of a hollow one with its lease."""
    report_s: float = 300.0
    """How often the node's status is written although nothing has changed."""
    workers: int = 64
    """How many pods are looked at, and how many statuses written, at a time."""
    has_events: bool = True
    longest_pause_s: float = 300.0
    """Between two tries to start a container."""


__all__ = ["KUBELET_VERSION", "PORT", "KubeletConfig"]
