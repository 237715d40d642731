"""Startup, liveness and readiness probes of containers (`pkg/kubelet/prober`, `pkg/probe`).

`prober` performs one run of a probe; `manager` runs each probe when it is due, counts successes and failures up to
their thresholds, and reports changes to the kubelet.
"""

from sampan.kubelet.probes.manager import ProbeManager

__all__ = ["ProbeManager"]
