"""Features of a pod that the runtime `process` does not support."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sampan.runtimes.config import ContainerConfig, Mount, SandboxConfig

OWN_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm", "/dev/termination-log")
"""Mounts that the kubelet adds to every container. They are omitted: a process uses the machine's own files instead."""
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def obstacles(config: ContainerConfig, uid: int | None = None) -> Iterator[str]:
    """Yield a description of each unsupported feature of a container. `uid` is the user that runs Sampan."""
    own, security = os.geteuid() if uid is None else uid, config.security
    if security.is_privileged:
        yield "be privileged"
    if security.user not in (None, own) and own != 0:
        yield f"run as user {security.user}"
    if security.is_root_read_only:
        yield "have a read-only root"
    if security.added:
        yield f"have the capabilities {', '.join(security.added)}"
    if config.cdi_devices:
        yield f"have the devices {', '.join(config.cdi_devices)}"
    for device in config.devices:
        if device.path != device.host_path:
            yield f"have a device at {device.path}"
    for mount in config.mounts:
        if not is_left_out(mount):
            yield f"have a volume at {mount.target}"


def sandbox_obstacles(config: SandboxConfig) -> Iterator[str]:
    if config.namespaces.pid == "pod":
        yield "share its own processes' namespace"
    if config.sysctls:
        yield "have sysctls of its own"


def is_left_out(mount: Mount) -> bool:
    return mount.target in OWN_FILES or mount.target.startswith(ACCOUNT)


def told(obstacles: Iterator[str]) -> str:
    """Return an error message, or an empty string if there are no obstacles."""
    phrases = list(obstacles)
    return f"with the runtime process a container cannot {', nor '.join(phrases)}" if phrases else ""
