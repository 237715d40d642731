"""Startup, liveness and readiness probes of containers (`pkg/kubelet/prober`, `pkg/probe`).

`results` counts successes and failures up to their thresholds (pure); `prober` performs one run of a probe; `manager`
runs each probe when it is due and reports changes to the kubelet.
"""

from sampan.kubelet.probes.manager import ProbeManager

__all__ = ["ProbeManager"]
