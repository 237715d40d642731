"""Reads what the machine has available of the resources that have eviction thresholds."""

from __future__ import annotations

import os
from pathlib import Path

from sampan.kubelet.agent.pressure import Observation


def observe_machine(root: Path, images: Path | None = None) -> dict[str, Observation]:
    """Return an observation per eviction signal. `root` is the directory of the kubelet's data, `images` that of images
    and containers if it is a different one.
    """
    memory = _meminfo()
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    observations = {
        "memory.available": Observation(memory.get("MemAvailable", 0), memory.get("MemTotal", 0)),
        "pid.available": Observation(most - running, most),
    }
    for name, path in (("nodefs", root), ("imagefs", images if images is not None and images.exists() else root)):
        disk = os.statvfs(path)
        observations[f"{name}.available"] = Observation(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)
        if disk.f_files:  # Some file systems allocate inodes dynamically and report none.
            observations[f"{name}.inodesFree"] = Observation(disk.f_favail, disk.f_files)
    return observations


def has_own_disk(root: Path, images: Path | None) -> bool:
    """Whether images are on another file system than the kubelet's data."""
    return images is not None and images.exists() and os.stat(images).st_dev != os.stat(root).st_dev


def _meminfo() -> dict[str, int]:
    rows = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}
