"""Probes: whether a container has started, lives, and is ready.

`results` counts successes and failures up to their thresholds (pure); `http`, `tcp`, `grpc` and `command` ask, `asking`
chooses among them; `manager` has each probe asked when it is due, and tells the kubelet of what has changed.
"""

from sampan.kubelet.probes.manager import ProbeManager

__all__ = ["ProbeManager"]
