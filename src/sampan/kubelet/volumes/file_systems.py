"""Expands a file system to the size of its block device with the tools of the machine."""

from __future__ import annotations

from pathlib import Path

from sampan.kubelet.volumes.contract import VolumeFault
from sampan.kubelet.volumes.mounting import run_program


async def fill(disk: str, kind: str, mounted_at: Path) -> None:
    """Expand the file system while it is mounted. Raise VolumeFault if that fails."""
    command = growing(disk, kind, mounted_at)
    if not command:
        raise VolumeFault(f"resize of format {kind} is not supported for device {disk} mounted at {mounted_at}")
    try:
        await run_program(*command)
    except VolumeFault as error:
        raise VolumeFault(f"resize of device {disk} failed: {error.text}") from None


def growing(disk: str, kind: str, mounted_at: Path) -> list[str]:
    """Return the command, empty if the file system is not supported. Pure."""
    if kind in ("ext2", "ext3", "ext4"):
        return ["resize2fs", disk]
    if kind == "xfs":
        return ["xfs_growfs", "-d", str(mounted_at)]
    if kind == "btrfs":
        return ["btrfs", "filesystem", "resize", "max", str(mounted_at)]
    return []
