"""Pure functions for the source of a pod: the API server, or files and URLs for static pods (`pkg/kubelet/types`)."""

from __future__ import annotations

import msgspec

from sampan.api.semantics.pod_references import CONFIG_SOURCE, is_mirror_pod
from sampan.api.types.core_v1 import Pod

API = "api"


def source_of(pod: Pod) -> str:
    return pod.metadata.annotations.get(CONFIG_SOURCE, API)


def from_api(pod: Pod) -> Pod:
    """Return the pod with `api` as its source. The annotation in the API object is not trusted: only the kubelet
    decides which pods are static.
    """
    if source_of(pod) == API:
        return pod
    meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, CONFIG_SOURCE: API})
    return msgspec.structs.replace(pod, metadata=meta)


CRITICAL = 2_000_000_000
"""Priority from which on a pod is never evicted and may preempt others."""


def is_critical(pod: Pod) -> bool:
    is_own = source_of(pod) != API or is_mirror_pod(pod)
    return is_own or (pod.spec.priority or 0) >= CRITICAL
