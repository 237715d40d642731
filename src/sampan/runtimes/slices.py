"""Groups of pods where the engine has systemd make groups: these are slices, known by name and not by path."""

from __future__ import annotations

import asyncio
import contextlib
import shutil

from sampan.runtimes.config import SandboxConfig

_PREFIX = "sampan-pod"
_PATIENCE_S = 60.0


def slice_of(uid: str) -> str:
    """A dash in a slice's name means that it lies in another."""
    return f"{_PREFIX}{uid.replace('-', '_')}.slice"


def group_parent(config: SandboxConfig, *, is_systemd: bool) -> str:
    """Below what the engine is to put the pod's containers."""
    return slice_of(config.uid) if is_systemd and config.cgroup_parent else config.cgroup_parent


async def end_slice(uid: str) -> None:
    """systemd makes slices where they are named, and keeps them until told."""
    if (systemctl := shutil.which("systemctl")) is None:
        return
    quiet = asyncio.subprocess.DEVNULL
    with contextlib.suppress(OSError):  # also if systemd does not answer
        process = await asyncio.create_subprocess_exec(systemctl, "stop", slice_of(uid), stdout=quiet, stderr=quiet)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()


__all__ = ["end_slice", "group_parent", "slice_of"]
