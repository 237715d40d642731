"""What the kubelet of a real node is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.api.types.core_v1 import Taint
from sampan.kubelet.config import PORT, KubeletConfig

HARD_EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


@dataclass(frozen=True, slots=True)
class ShutdownGroup:
    """Pods from a priority on, up to the next group's, and how long they have when the machine goes down."""

    priority: int
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    name: str
    """Of the node."""
    root: Path
    """Where the kubelet keeps its data."""
    logs: Path
    """Where the logs of pods are."""
    kubelet: KubeletConfig = field(default_factory=KubeletConfig)
    registers: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    is_schedulable: bool = True
    node_ips: Sequence[str] = ()
    """Empty: that of the machine's way out."""
    port: int = PORT
    max_pods: int = 110
    pods_per_core: int = 0
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=lambda: dict(HARD_EVICTION))
    eviction_soft: Mapping[str, str] = field(default_factory=dict)
    eviction_soft_grace_s: Mapping[str, float] = field(default_factory=dict)
    eviction_max_pod_grace_s: int = 0
    eviction_minimum_reclaim: Mapping[str, str] = field(default_factory=dict)
    """How much more there must be again before a shortage has passed."""
    pressure_transition_s: float = 300.0
    eviction_period_s: float = 10.0
    """How often it is looked whether there is enough of everything."""
    cluster_dns: Sequence[str] = ()
    cluster_domain: str = "cluster.local"
    resolv_conf: Path = Path("/etc/resolv.conf")
    serializes_pulls: bool = True
    max_parallel_pulls: int = 0
    """0: as many as are wanted; only where pulls are not one after the other."""
    image_policy: str = "NeverVerifyPreloadedImages"
    """Which pods must show that they may have an image that is there already."""
    listed_images: Sequence[str] = ()
    cgroup_root: str = ""
    """Below which this kubelet has its groups; empty: at the top."""
    has_cgroups_per_qos: bool = True
    static_folder: Path | None = None
    static_url: str = ""
    static_url_headers: Mapping[str, str] = field(default_factory=dict)
    static_period_s: float = 20.0
    static_url_period_s: float = 20.0
    relist_s: float = 60.0
    """How often every pod is looked at although nobody said that anything had changed."""
    image_gc_high: int = 85
    image_gc_low: int = 80
    image_min_age_s: float = 120.0
    image_max_age_s: float = 0.0
    """How long an image may be unused; 0: for ever."""
    images: Path | None = None
    """Where images and containers are, where that is known."""
    container_log_max_bytes: int = 10 << 20
    container_log_max_files: int = 5
    shutdown_grace_s: float = 0.0
    shutdown_grace_critical_s: float = 0.0
    shutdown_groups: Sequence[ShutdownGroup] = ()
    """Instead of these two."""
    system_bus: str = ""
    """The address of the bus on which the machine's end is told; empty: the system's own."""
    logind_folder: Path = Path("/etc/systemd/logind.conf.d")
    allowed_unsafe_sysctls: Sequence[str] = ()
    pod_pids: int = 0
    """How many processes a pod may have; 0: as many as it likes."""
    has_default_seccomp: bool = False
    """Containers that say nothing have the runtime's own profile."""
    max_told_images: int = 50
    """In the node's status; -1: all."""
    provider_id: str = ""
    allows_privileged: bool = True
    host_network_sources: Sequence[str] = ("*",)
    """Pods of which sources (api, file, http) may be in the machine's own network; * for all."""
    host_pid_sources: Sequence[str] = ("*",)
    host_ipc_sources: Sequence[str] = ("*",)
    ends_pods: bool = False
    """When it is told to stop, everything that it runs ends; else that goes on, and is taken over later."""
    pod_cidrs: Sequence[str] = ()
    """For pods, where the node is given no range of its own."""
    own_pod_cidrs: Sequence[str] = ()
    """Which the node takes for itself when nobody gives it any."""
    needs_pod_cidr: bool = False
    """The pods' network is made by Sampan, of the node's range of addresses."""


__all__ = ["HARD_EVICTION", "AgentConfig", "ShutdownGroup"]
