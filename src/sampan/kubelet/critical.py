"""Pods that a node cannot be without. Pure."""

from __future__ import annotations

from sampan.api.types.core_v1 import Pod

CRITICAL = 2_000_000_000
"""The priority from which on pods are never evicted, and always taken."""


def is_critical(pod: Pod) -> bool:
    annotations = pod.metadata.annotations
    is_static = annotations.get("kubernetes.io/config.source", "api") != "api"
    return is_static or "kubernetes.io/config.mirror" in annotations or (pod.spec.priority or 0) >= CRITICAL


__all__ = ["CRITICAL", "is_critical"]
