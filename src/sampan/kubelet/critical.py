"""Pure test for critical pods (`pkg/kubelet/types/pod_update.go`)."""

from __future__ import annotations

from sampan.api.semantics.pod_references import is_mirror_pod
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.pod_sources import API, source_of

CRITICAL = 2_000_000_000
"""Priority from which on a pod is never evicted and may preempt others."""


def is_critical(pod: Pod) -> bool:
    is_own = source_of(pod) != API or is_mirror_pod(pod)
    return is_own or (pod.spec.priority or 0) >= CRITICAL
