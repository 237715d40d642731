"""Configuration that real and hollow kubelets share."""

from dataclasses import dataclass, field

from sampan.api.feature_gates import FeatureGates

PORT = 10250


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig:
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    lease_duration_s: int = 40
    renew_s: float = 10.0
    """Interval of lease renewals."""
    status_s: float = 10.0
    """Interval at which a real node computes its status. A hollow node does so with every lease renewal."""
    report_s: float = 300.0
    """Interval at which an unchanged node status is written nevertheless."""
    workers: int = 64
    """Number of pods synced, and of statuses written, concurrently."""
    has_events: bool = True
    longest_pause_s: float = 300.0
    """Upper limit of the restart backoff of a container."""
