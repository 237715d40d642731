"""The configuration of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sampan.cluster.host_locks import HostLocks
from sampan.runtimes.names import CRI, DOCKER, HOLLOW, OCI

_WITH_POD_CIDRS = (CRI, DOCKER, OCI)
"""Runtimes whose pods have their own addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesConfig:
    count: int = 0
    """The minimum number of nodes: node-0, node-1 and so on."""
    runtime: str = HOLLOW
    """The name of the runtime that runs the pods."""
    endpoint: str = ""
    """The socket of a container engine."""
    stages: Path | None = None
    """The stage file, which defines the behaviour of hollow pods."""
    has_events: bool = True
    """Whether hollow nodes create events."""
    root: Path | None = None
    """The directory with the data of real nodes."""
    images: Path | None = None
    """The image directory that real nodes share."""
    has_pod_cidrs: bool = False
    """Whether each node has a pod CIDR."""
    cluster_cidrs: Sequence[str] = ()
    """The cluster CIDRs, from which the pod CIDRs are allocated."""
    about: str = ""
    """A message about the runtime of real nodes and why it was chosen."""
    note: str = ""
    """A message about why there is no real node, unless the user has disabled them."""

    @property
    def hollow_count(self) -> int:
        return self.count if self.runtime == HOLLOW else 0

    @property
    def real_count(self) -> int:
        return self.count if self.runtime != HOLLOW else 0


def with_pod_cidrs(
    nodes: NodesConfig, settings: Mapping[str, Any], has_ipam: bool, locks: HostLocks
) -> tuple[NodesConfig, dict[str, Any]]:
    """Enable the allocation of pod CIDRs if the real nodes need them, that is, if Sampan provides their network. It
    requires the node IPAM controller (`has_ipam`). The cluster CIDR is chosen and remembered unless it is set."""
    settings = dict(settings)
    if nodes.real_count and nodes.runtime in _WITH_POD_CIDRS and has_ipam and not settings.get("allocate_node_cidrs"):
        from sampan.cluster.cluster_cidrs import cluster_cidr

        settings |= {
            "allocate_node_cidrs": True,
            "cluster_cidr": settings.get("cluster_cidr") or [cluster_cidr(nodes.root, locks)],
        }
    has_ranges = bool(settings.get("allocate_node_cidrs")) and has_ipam
    cidrs = list(settings.get("cluster_cidr") or ())
    return replace(nodes, has_pod_cidrs=has_ranges, cluster_cidrs=cidrs), settings
