"""The configuration of a cluster's nodes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sampan.api.feature_gates import FeatureGates
from sampan.cluster.errors import ClusterError
from sampan.cluster.machine.host_locks import HostLocks
from sampan.network.dns.upstreams import UpstreamConfig
from sampan.runtimes.names import CRI, DOCKER, HOLLOW, OCI

log = logging.getLogger(__name__)

AUTO_NETWORK, OWN_NETWORK, HOST_NETWORK = "auto", "own", "host"
NODE_NETWORKS = (AUTO_NETWORK, OWN_NETWORK, HOST_NETWORK)
_POD_NETWORK_RUNTIMES = (CRI, DOCKER, OCI)
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
    """The stage file, which defines the behavior of hollow pods."""
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
    node_network: str = AUTO_NETWORK
    """The network of the real nodes: `own` for a network namespace each, `host` for the network of the machine, or
    `auto` for the first of these that works."""
    node_cidrs: Sequence[str] = ()
    """The node CIDRs, from which nodes with their own network namespaces have their addresses; empty if the nodes use
    the network of the machine."""
    has_network_policy: bool = True
    """Whether real nodes enforce network policies, if they have a pod network of Sampan."""
    pod_network: str = "auto"
    """The backend of `sampan.network.mesh`, through which pods reach pods on machines that joined the cluster."""
    cluster_dns: Sequence[str] = ()
    """The addresses of the DNS servers of pods with dnsPolicy ClusterFirst."""
    cluster_domain: str = "cluster.local"
    upstreams: UpstreamConfig = field(default_factory=UpstreamConfig)
    """The DNS resolvers of pods with dnsPolicy Default."""
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    """The feature gates of the cluster, for kubelets and proxies."""
    about: str = ""
    """A message about the runtime of real nodes and why it was chosen."""
    note: str = ""
    """A message that explains why there is no real node; empty if the user has disabled real nodes."""

    def enforces_policies(self) -> bool:
        """Whether the nodes enforce network policies. They cannot do so for pods without addresses of their own."""
        if not self.has_network_policy:
            return False
        from sampan.cluster.nodes.node_network import can_enforce_policies

        return can_enforce_policies(self.runtime)

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
    if (
        nodes.real_count
        and nodes.runtime in _POD_NETWORK_RUNTIMES
        and has_ipam
        and not settings.get("allocate_node_cidrs")
    ):
        from sampan.cluster.cluster_cidrs import cluster_cidr

        settings |= {
            "allocate_node_cidrs": True,
            "cluster_cidr": settings.get("cluster_cidr") or [cluster_cidr(nodes.root, locks)],
        }
    has_ranges = bool(settings.get("allocate_node_cidrs")) and has_ipam
    cidrs = list(settings.get("cluster_cidr") or ())
    return replace(nodes, has_pod_cidrs=has_ranges, cluster_cidrs=cidrs), settings


def with_node_cidrs(nodes: NodesConfig, locks: HostLocks) -> NodesConfig:
    """Choose the node CIDRs if the nodes have network namespaces of their own. An IPv6 CIDR is chosen only if the pods
    have IPv6 addresses too."""
    if not nodes.real_count or nodes.root is None:
        return nodes
    if reason := shared_network_reason(nodes):
        if nodes.node_network == OWN_NETWORK:
            raise ClusterError(f"--node-network: nodes cannot have network namespaces of their own: {reason}")
        log.info("the nodes use the network of the machine: %s", reason)
        return nodes
    for cidr in nodes.cluster_cidrs:
        if not locks.acquire(cidr):
            text = f"--cluster-cidr: another cluster of this machine that is running uses {cidr}"
            raise ClusterError(f"{text}; stop it, or start this one in another data directory")
    from sampan.cluster.cluster_cidrs import node_cidr
    from sampan.network.nodes import ipv6_cidr

    families = list(dict.fromkeys(6 if ":" in cidr else 4 for cidr in nodes.cluster_cidrs)) or [4]
    cidrs = [ipv6_cidr(nodes.root) if family == 6 else node_cidr(nodes.root, locks) for family in families]
    return replace(nodes, node_cidrs=cidrs)


def shared_network_reason(nodes: NodesConfig) -> str:
    """Return why the real nodes use the network of the machine, or an empty string if each has its own."""
    if nodes.node_network == HOST_NETWORK:
        return f"--node-network {HOST_NETWORK}"
    if nodes.runtime != OCI:
        return f"the runtime {nodes.runtime} uses the network of the machine"
    from sampan.network.nodes import unsupported_reason

    return unsupported_reason()
