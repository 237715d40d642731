"""Read the cgroup of a container, v1 or v2: its resource usage, and its OOM kills."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from sampan.machinery.clock import Clock
from sampan.runtimes.contract import ContainerUsage
from sampan.runtimes.images.mounts import measure_writable_layers
from sampan.runtimes.records import ContainerRecord
from sampan.runtimes.usage import CpuRates

_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class GroupUsage:
    cpu_s: float = 0.0
    memory_bytes: int = 0
    rss_bytes: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    processes: int = 0


def is_unified() -> bool:
    """Whether the machine uses cgroup v2 only."""
    return (_ROOT / "cgroup.controllers").exists()


def can_limit(controller: str) -> bool:
    """Whether the cgroup controller is available."""
    if is_unified():
        return controller in (_ROOT / "cgroup.controllers").read_text().split()
    return (_ROOT / controller).is_dir()


def is_writable() -> bool:
    """Whether this process may create cgroups. Without root it may not."""
    return os.access(_ROOT if is_unified() else _ROOT / "memory", os.W_OK)


def count_oom_kills(cgroup: str) -> int:
    """Return the number of OOM kills in the cgroup."""
    if is_unified():
        return _pairs(_ROOT / cgroup.strip("/") / "memory.events").get("oom_kill", 0)
    return _pairs(_place("memory", cgroup) / "memory.oom_control").get("oom_kill", 0)


def usage(cgroup: str) -> GroupUsage:
    return _read_usage_v2(_ROOT / cgroup.strip("/")) if is_unified() else _read_usage_v1(cgroup)


def remove(cgroup: str) -> None:
    """Remove an empty cgroup and the empty cgroups below it. Cgroups that are still in use are kept."""
    roots = [_ROOT] if is_unified() else [path for path in _ROOT.iterdir() if path.is_dir()]
    for root in roots:
        directory = root / cgroup.strip("/")
        if not cgroup.strip("/") or not directory.is_dir():
            continue
        for child, _, _ in os.walk(directory, topdown=False):  # a cgroup may disappear at the same time
            with contextlib.suppress(OSError):
                os.rmdir(child)


def _read_usage_v2(directory: Path) -> GroupUsage:
    memory = _pairs(directory / "memory.stat")
    used = _number(directory / "memory.current")
    return GroupUsage(
        cpu_s=_pairs(directory / "cpu.stat").get("usage_usec", 0) / 1e6,
        memory_bytes=max(used - memory.get("inactive_file", 0), 0),
        rss_bytes=memory.get("anon", 0),
        page_faults=memory.get("pgfault", 0),
        major_page_faults=memory.get("pgmajfault", 0),
        processes=_number(directory / "pids.current"),
    )


def _read_usage_v1(cgroup: str) -> GroupUsage:
    memory = _pairs(_place("memory", cgroup) / "memory.stat")
    used = _number(_place("memory", cgroup) / "memory.usage_in_bytes")
    return GroupUsage(
        cpu_s=_number(_place("cpuacct", cgroup) / "cpuacct.usage") / 1e9,
        memory_bytes=max(used - memory.get("total_inactive_file", 0), 0),
        rss_bytes=memory.get("total_rss", 0),
        page_faults=memory.get("total_pgfault", 0),
        major_page_faults=memory.get("total_pgmajfault", 0),
        processes=_number(_place("pids", cgroup) / "pids.current"),
    )


def _place(controller: str, cgroup: str) -> Path:
    return _ROOT / controller / cgroup.strip("/")


def _pairs(path: Path) -> dict[str, int]:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


class OciUsage:
    def __init__(self, *, clock: Clock) -> None:
        self._clock, self._rates = clock, CpuRates()

    def measure_container(self, record: ContainerRecord, directory: Path) -> ContainerUsage:
        """Return the usage of a container. `directory` is the directory of the container. The call blocks, so run it in
        a thread.
        """
        used = usage(record.cgroup)
        size, inodes = measure_writable_layers(directory)
        return ContainerUsage(
            name=record.name,
            cpu_cores=self._rates.rate(record.id, used.cpu_s, self._clock.monotonic()),
            memory_bytes=used.memory_bytes,
            cpu_s=used.cpu_s,
            memory_rss_bytes=used.rss_bytes,
            page_faults=used.page_faults,
            major_page_faults=used.major_page_faults,
            disk_bytes=size,
            log_bytes=_size(record.log_path),
            inodes=inodes,
            processes=used.processes,
        )

    def forget(self, record: ContainerRecord) -> None:
        self._rates.forget(record.id)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
