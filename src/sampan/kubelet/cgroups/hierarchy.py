"""Access to the kernel's cgroup hierarchies: version 2 with one tree, version 1 with one tree per controller."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from sampan.runtimes.config import Resources

ROOT = Path("/sys/fs/cgroup")
_TREES = (
    *("cpu", "cpuacct", "memory", "pids", "cpuset", "devices", "freezer", "blkio", "hugetlb"),
    *("net_cls", "net_prio", "perf_event", "rdma", "misc", "systemd", "unified"),
)
_NO_LIMIT = "max"


class Hierarchy:
    """A cgroup is named by its path from the root, such as /kubepods/burstable. Errors are raised as OSError."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.is_unified = (root / "cgroup.controllers").exists()

    def make(self, cgroup: str) -> None:
        for tree in self._trees():
            directory = tree / cgroup.strip("/")
            if directory.is_dir():
                continue
            if self.is_unified:
                self._make_unified(cgroup)
            else:
                directory.mkdir(parents=True, exist_ok=True)
                self._inherit_cpus(tree, directory)

    def _make_unified(self, cgroup: str) -> None:
        """Create the cgroup, enabling all controllers for the children of each of its ancestors."""
        directory = self._root
        controllers = [f"+{name}" for name in (directory / "cgroup.controllers").read_text().split()]
        for part in [*cgroup.strip("/").split("/"), ""]:
            for word in controllers:
                with contextlib.suppress(OSError):  # A controller that cannot be enabled does not limit anything below.
                    _write(directory / "cgroup.subtree_control", word)
            directory /= part
            directory.mkdir(exist_ok=True)

    def _inherit_cpus(self, tree: Path, directory: Path) -> None:
        """Copy CPUs and memory nodes from the parent. A new cpuset cgroup has none, so no process could run in it."""
        if tree.name != "cpuset":
            return
        for part in reversed([directory, *directory.parents]):
            if tree in part.parents:
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if not (part / name).read_text().strip():
                        (part / name).write_text((part.parent / name).read_text().strip())

    def limit(self, cgroup: str, amounts: Resources) -> None:
        """Set the limits of the cgroup; 0 means unlimited."""
        write = self._limit_unified if self.is_unified else self._limit_split
        write(cgroup, amounts)

    def _limit_unified(self, cgroup: str, amounts: Resources) -> None:
        directory = self._root / cgroup.strip("/")
        if amounts.cpu_shares:
            _write(directory / "cpu.weight", str(_weight(amounts.cpu_shares)))
        quota = str(amounts.cpu_quota) if amounts.cpu_quota else _NO_LIMIT
        _write(directory / "cpu.max", f"{quota} {amounts.cpu_period}")
        _write(directory / "memory.max", str(amounts.memory_bytes or _NO_LIMIT))
        _write(directory / "pids.max", str(amounts.pids or _NO_LIMIT))

    def _limit_split(self, cgroup: str, amounts: Resources) -> None:
        name = cgroup.strip("/")
        if amounts.cpu_shares:
            _write(self._root / "cpu" / name / "cpu.shares", str(amounts.cpu_shares))
        _write(self._root / "cpu" / name / "cpu.cfs_period_us", str(amounts.cpu_period))
        _write(self._root / "cpu" / name / "cpu.cfs_quota_us", str(amounts.cpu_quota or -1))
        _write(self._root / "memory" / name / "memory.limit_in_bytes", str(amounts.memory_bytes or -1))
        _write(self._root / "pids" / name / "pids.max", str(amounts.pids or _NO_LIMIT))

    def remove(self, cgroup: str) -> bool:
        """Remove the cgroup and its descendants. Return False if a process is still in one of them."""
        is_removed = True
        for tree in self._trees():
            directory = tree / cgroup.strip("/")
            for path, _, _ in os.walk(directory, topdown=False):
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    continue
                except OSError:
                    is_removed = False
        return is_removed

    def processes(self, cgroup: str) -> set[int]:
        """Return the processes of the cgroup and its descendants."""
        pids: set[int] = set()
        for tree in self._trees():
            for path, _, _ in os.walk(tree / cgroup.strip("/")):
                with contextlib.suppress(OSError):
                    pids.update(int(line) for line in (Path(path) / "cgroup.procs").read_text().split())
        return pids

    def children(self, cgroup: str) -> set[str]:
        """Return the names of the direct children."""
        names: set[str] = set()
        for tree in self._trees():
            directory = tree / cgroup.strip("/")
            if directory.is_dir():
                names.update(entry.name for entry in os.scandir(directory) if entry.is_dir())
        return names

    def _trees(self) -> Iterator[Path]:
        if self.is_unified:
            yield self._root
            return
        for name in _TREES:
            if (self._root / name / "cgroup.procs").exists():
                yield self._root / name


def _weight(shares: int) -> int:
    """Convert CPU shares of version 1 to the weight of version 2, on a curve that maps 1024 to 100."""
    import math

    clamped = min(max(shares, 2), 262_144)
    level = math.log2(clamped)
    return math.ceil(10 ** ((level * level + 125 * level) / 612.0 - 7.0 / 34.0))


def _write(path: Path, text: str) -> None:
    """Write the file if it exists. A controller that the kernel lacks does not limit anything."""
    if path.exists():
        path.write_text(text)
