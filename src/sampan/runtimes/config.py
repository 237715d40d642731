"""What a runtime is told of a sandbox and of a container, shaped like CRI: everything decided, nothing to look up.

The kubelet works these out from the pod (`sampan.kubelet.environment`); a runtime carries them out and needs to know
nothing of volumes, secrets or services.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

NamespaceMode = Literal["pod", "container", "node", "target"]
Propagation = Literal["private", "rslave", "rshared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dns:
    """What goes into resolv.conf."""

    servers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    protocol: str = "TCP"
    container_port: int
    host_port: int
    host_ip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """Which are the pod's own, the node's, or each container's; `target` is another container's (debugging)."""

    network: NamespaceMode = "pod"
    pid: NamespaceMode = "container"
    ipc: NamespaceMode = "pod"
    target: str = ""
    """The id of the container whose processes are seen, with `pid` at `target`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Of seccomp or AppArmor."""

    type: Literal["", "RuntimeDefault", "Unconfined", "Localhost"] = "RuntimeDefault"
    """Empty: nobody said, and the runtime does as it does."""
    local: str = ""
    """The file (seccomp) or name (AppArmor) of a local one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    user: int | None = None
    """None: as the image says."""
    group: int | None = None
    username: str = ""
    """For an image whose user is a name, where the kubelet wants it kept."""
    supplemental_groups: Sequence[int] = ()
    supplemental_policy: Literal["Merge", "Strict"] = "Merge"
    """Whether the groups that the image's own files give the user count too."""
    must_not_be_root: bool = False
    """The pod says runAsNonRoot: a runtime that works out the user itself refuses root."""
    is_privileged: bool = False
    is_root_read_only: bool = False
    may_not_gain_privileges: bool = False
    added: Sequence[str] = ()
    """Capabilities, without CAP_; ALL is all."""
    dropped: Sequence[str] = ()
    seccomp: Profile = field(default_factory=lambda: Profile(type="Unconfined"))
    apparmor: Profile = field(default_factory=lambda: Profile(type="Unconfined"))
    selinux: Mapping[str, str] = field(default_factory=dict)
    masked_paths: Sequence[str] = ()
    read_only_paths: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Limits, as cgroups have them; 0 and empty are none."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    """Microseconds of a period; with 0 there is no limit."""
    cpu_period: int = 100_000
    memory_bytes: int = 0
    memory_reserved: int = 0
    """Kept from being reclaimed, where the kernel can."""
    oom_score_adjust: int = 0
    pids: int = 0
    cpus: str = ""
    memory_nodes: str = ""
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    """Bytes by the size of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    source: Path
    target: str
    is_read_only: bool = False
    is_recursively_read_only: bool = False
    propagation: Propagation = "private"
    image: str = ""
    """An image whose files are mounted instead of `source`."""
    image_sub_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    host_path: str
    path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfig:
    """A pod's surroundings. It is known by the pod's uid and `attempt`."""

    uid: str
    namespace: str
    name: str
    attempt: int = 0
    hostname: str = ""
    dns: Dns | None = None
    """None: as the node's own."""
    ports: Sequence[PortMapping] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_folder: Path
    cgroup_parent: str = ""
    """The pod's group, below which containers have theirs; empty where there are no cgroups."""
    namespaces: Namespaces = field(default_factory=Namespaces)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
    """Of the pause container, where there is one."""
    handler: str = ""
    """Of the RuntimeClass."""
    shm_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """One run of a container. It is known by its pod, `name` and `attempt`."""

    name: str
    attempt: int = 0
    image: str
    """As the pod names it."""
    image_ref: str = ""
    """What pulling it gave."""
    command: Sequence[str] = ()
    """In place of the image's entrypoint."""
    args: Sequence[str] = ()
    """In place of the image's command."""
    working_folder: str = ""
    env: Sequence[tuple[str, str]] = ()
    mounts: Sequence[Mount] = ()
    devices: Sequence[Device] = ()
    cdi_devices: Sequence[str] = ()
    """Of the Container Device Interface, by their full names."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Among them the hash of the container's spec, by which a change is seen after a restart of the kubelet."""
    log_path: Path
    """Where its output goes, in CRI's form."""
    has_stdin: bool = False
    closes_stdin: bool = False
    """After the first who attached has gone."""
    has_tty: bool = False
    stop_signal: str = ""
    """Empty: as the image says, or TERM."""
    namespaces: Namespaces = field(default_factory=Namespaces)
    security: Security = field(default_factory=Security)
    resources: Resources = field(default_factory=Resources)


__all__ = [
    "ContainerConfig",
    "Device",
    "Dns",
    "Mount",
    "NamespaceMode",
    "Namespaces",
    "PortMapping",
    "Profile",
    "Propagation",
    "Resources",
    "SandboxConfig",
    "Security",
]
