"""How much volumes hold, and which hold more than they may."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sampan.api import quantity
from sampan.api.types.core_v1 import Pod, Volume
from sampan.runtimes import trees

_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUsage:
    name: str
    used_bytes: int
    capacity_bytes: int
    available_bytes: int
    used_inodes: int
    inodes: int
    free_inodes: int
    claim: str = ""


def measure(name: str, path: Path, *, is_whole: bool, claim: str = "") -> VolumeUsage:
    """`is_whole`: the volume is a file system of its own; else its files are counted."""
    whole = os.statvfs(path)
    capacity, available = whole.f_blocks * whole.f_frsize, whole.f_bavail * whole.f_frsize
    if is_whole:
        used, files = capacity - whole.f_bfree * whole.f_frsize, whole.f_files - whole.f_ffree
    else:
        used, files = disk_usage(path)
    return VolumeUsage(
        name=name,
        used_bytes=used,
        capacity_bytes=capacity,
        available_bytes=available,
        used_inodes=files,
        inodes=whole.f_files,
        free_inodes=whole.f_ffree,
        claim=claim,
    )


def disk_usage(folder: Path) -> tuple[int, int]:
    """Bytes on disk and files, those of other file systems below left out; what has several names counts once."""
    top = os.lstat(folder)
    seen: set[int] = set()
    total, count = top.st_blocks * _BLOCK, 1
    for entry in trees.entries(folder):
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if found.st_dev != top.st_dev or found.st_ino in seen:
            continue
        if found.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):  # only these could come again
            seen.add(found.st_ino)
        total, count = total + found.st_blocks * _BLOCK, count + 1
    return total, count


def limited(pod: Pod) -> list[tuple[Volume, int]]:
    """The volumes on disk that may not grow beyond a size, with that. Pure."""
    found = []
    for volume in pod.spec.volumes:
        source = volume.emptyDir
        if source is not None and source.sizeLimit is not None and not source.medium:
            limit = quantity.parse(source.sizeLimit).value()
            if limit > 0:
                found.append((volume, limit))
    return found


def excess(volume: Volume, limit: int, used: int) -> str:
    """What is told of a pod whose volume holds too much; empty if it does not. Pure."""
    if used <= limit or volume.emptyDir is None:
        return ""
    text = str(quantity.parse(str(volume.emptyDir.sizeLimit)))
    return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{text}". '


__all__ = ["VolumeUsage", "disk_usage", "excess", "limited", "measure"]
