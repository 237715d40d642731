"""Where a pod of a node comes from: the API server, or the node's own files and URLs. Pure."""

from __future__ import annotations

import msgspec

from sampan.api.types.core_v1 import Pod

SOURCE, MIRROR = "kubernetes.io/config.source", "kubernetes.io/config.mirror"
API = "api"


def source_of(pod: Pod) -> str:
    return pod.metadata.annotations.get(SOURCE, API)


def from_api(pod: Pod) -> Pod:
    """As the API server has it, whatever it says of itself: only the node knows which pods are its own."""
    if source_of(pod) == API:
        return pod
    meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, SOURCE: API})
    return msgspec.structs.replace(pod, metadata=meta)


__all__ = ["API", "MIRROR", "SOURCE", "from_api", "source_of"]
