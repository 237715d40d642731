"""Startup, liveness and readiness probes of containers (`pkg/kubelet/prober`, `pkg/probe`).

`results` counts successes and failures up to their thresholds (pure); `http`, `tcp`, `grpc` and `command` perform a
probe, `asking` selects one of them; `manager` runs each probe when it is due and reports changes to the kubelet.
"""

from sampan.kubelet.probes.manager import ProbeManager

__all__ = ["ProbeManager"]
