"""Cgroups of pods in engines with the systemd cgroup driver, where they are slices with a name instead of a path."""

from __future__ import annotations

import contextlib
import shutil

from sampan.machinery import programs
from sampan.runtimes.config import SandboxConfig

_PREFIX = "sampan-pod"
_TIMEOUT_S = 60.0


def slice_of(uid: str) -> str:
    """Return the name of the pod's slice. Dashes are replaced, as a dash in a slice name denotes a parent slice."""
    return f"{_PREFIX}{uid.replace('-', '_')}.slice"


def cgroup_parent(config: SandboxConfig, *, is_systemd: bool) -> str:
    """Return the cgroup parent that the engine uses for the containers of the pod."""
    return slice_of(config.uid) if is_systemd and config.cgroup_parent else config.cgroup_parent


async def stop_slice(uid: str) -> None:
    """Stop the pod's slice. systemd creates a slice on first use and keeps it until it is stopped."""
    if (systemctl := shutil.which("systemctl")) is None:
        return
    with contextlib.suppress(OSError):  # includes TimeoutError, if systemd does not respond
        await programs.run(systemctl, "stop", slice_of(uid), timeout_s=_TIMEOUT_S)
