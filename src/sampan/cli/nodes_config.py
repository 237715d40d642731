"""What a cluster is told about its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sampan.cli.claims import Claims

AUTO, CRI, DOCKER, HOLLOW, OCI, PROCESS = "auto", "cri", "docker", "hollow", "oci", "process"
RUNTIMES = (AUTO, CRI, DOCKER, OCI, PROCESS, HOLLOW)
_WITH_RANGES = (CRI, DOCKER, OCI)
"""Pods of these have addresses of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesConfig:
    count: int = 0
    """How many nodes there are at least: node-0, node-1 and so on."""
    runtime: str = HOLLOW
    """What runs their pods."""
    endpoint: str = ""
    """Of a runtime that is somebody else's: its socket."""
    stages: Path | None = None
    """What hollow pods do."""
    has_events: bool = True
    """Whether hollow nodes tell events."""
    root: Path | None = None
    """Where real nodes keep their data."""
    images: Path | None = None
    """Where the images of real nodes are, which they share."""
    has_pod_ranges: bool = False
    """Each node is given a range of addresses for its pods."""
    cluster_cidrs: Sequence[str] = ()
    """Where all pods are."""
    about: str = ""
    """What runs real nodes' pods, and why that, for whoever starts the cluster."""
    note: str = ""
    """Why there is no real node although nobody said that there should be none."""

    @property
    def hollow_count(self) -> int:
        return self.count if self.runtime == HOLLOW else 0

    @property
    def real_count(self) -> int:
        return self.count if self.runtime != HOLLOW else 0


def with_pod_ranges(
    nodes: NodesConfig, settings: Mapping[str, Any], has_ipam: bool, claims: Claims
) -> tuple[NodesConfig, dict[str, Any]]:
    """Real nodes of which Sampan makes the network need a range for their pods each: see that they are given one, where
    the controller that does so runs (`has_ipam`), from a range that the cluster keeps unless it is told one."""
    settings = dict(settings)
    if nodes.real_count and nodes.runtime in _WITH_RANGES and has_ipam and not settings.get("allocate_node_cidrs"):
        from sampan.cli.pod_range import pod_range

        settings |= {
            "allocate_node_cidrs": True,
            "cluster_cidr": settings.get("cluster_cidr") or [pod_range(nodes.root, claims)],
        }
    has_ranges = bool(settings.get("allocate_node_cidrs")) and has_ipam
    cidrs = list(settings.get("cluster_cidr") or ())
    return replace(nodes, has_pod_ranges=has_ranges, cluster_cidrs=cidrs), settings


__all__ = ["AUTO", "CRI", "DOCKER", "HOLLOW", "OCI", "PROCESS", "RUNTIMES", "NodesConfig", "with_pod_ranges"]
