"""Making a file system as large as the disk that it is on, with the machine's own tools."""

from __future__ import annotations

from pathlib import Path

from sampan.kubelet.volumes.contract import VolumeFault
from sampan.kubelet.volumes.mounting import run_program


async def fill(disk: str, kind: str, mounted_at: Path) -> None:
    """It is mounted there meanwhile. VolumeFault."""
    command = growing(disk, kind, mounted_at)
    if not command:
        raise VolumeFault(f"resize of format {kind} is not supported for device {disk} mounted at {mounted_at}")
    try:
        await run_program(*command)
    except VolumeFault as fault:
        raise VolumeFault(f"resize of device {disk} failed: {fault.text}") from None


def growing(disk: str, kind: str, mounted_at: Path) -> list[str]:
    """Empty where no tool is known. Pure."""
    if kind in ("ext2", "ext3", "ext4"):
        return ["resize2fs", disk]
    if kind == "xfs":
        return ["xfs_growfs", "-d", str(mounted_at)]
    if kind == "btrfs":
        return ["btrfs", "filesystem", "resize", "max", str(mounted_at)]
    return []


__all__ = ["fill", "growing"]
