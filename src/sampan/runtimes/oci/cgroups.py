"""Read the cgroup of a container, v1 or v2: its resource usage, and its OOM kills."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sampan.host.clock import Clock
from sampan.host.linux.directory_trees import TreeMeter
from sampan.runtimes.contract import ContainerUsage, CpuThrottling, DiskCounters
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
    cache_bytes: int = 0
    swap_bytes: int = 0
    throttling: CpuThrottling | None = None
    disks: Sequence[DiskCounters] = ()


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
        cache_bytes=memory.get("file", 0),
        swap_bytes=_number(directory / "memory.swap.current"),
        throttling=_read_throttling(directory / "cpu.stat") if _has_quota_v2(directory) else None,
        disks=parse_io_stat(_text(directory / "io.stat")),
    )


def _has_quota_v2(directory: Path) -> bool:
    return not _text(directory / "cpu.max").startswith("max")


def _read_usage_v1(cgroup: str) -> GroupUsage:
    memory = _pairs(_place("memory", cgroup) / "memory.stat")
    used = _number(_place("memory", cgroup) / "memory.usage_in_bytes")
    cpu, blkio = _place("cpu", cgroup), _place("blkio", cgroup)
    return GroupUsage(
        cpu_s=_number(_place("cpuacct", cgroup) / "cpuacct.usage") / 1e9,
        memory_bytes=max(used - memory.get("total_inactive_file", 0), 0),
        rss_bytes=memory.get("total_rss", 0),
        page_faults=memory.get("total_pgfault", 0),
        major_page_faults=memory.get("total_pgmajfault", 0),
        processes=_number(_place("pids", cgroup) / "pids.current"),
        cache_bytes=memory.get("total_cache", 0),
        swap_bytes=memory.get("total_swap", 0),
        throttling=_read_throttling(cpu / "cpu.stat") if _number(cpu / "cpu.cfs_quota_us") > 0 else None,
        disks=parse_blkio(
            _text(blkio / "blkio.throttle.io_serviced_recursive"),
            _text(blkio / "blkio.throttle.io_service_bytes_recursive"),
        ),
    )


def _read_throttling(path: Path) -> CpuThrottling:
    values = _pairs(path)
    return CpuThrottling(
        periods=values.get("nr_periods", 0),
        throttled_periods=values.get("nr_throttled", 0),
        throttled_s=values.get("throttled_usec", 0) / 1e6 + values.get("throttled_time", 0) / 1e9,
    )


def parse_io_stat(text: str) -> list[DiskCounters]:
    """Return the counters in an io.stat file of cgroup v2."""
    disks = []
    for device, *words in (line.split() for line in text.splitlines()):
        values = dict(word.split("=", 1) for word in words if "=" in word)
        if "rios" in values:
            disks.append(
                DiskCounters(
                    device=_device_path(device),
                    reads=int(values["rios"]),
                    writes=int(values.get("wios", 0)),
                    read_bytes=int(values.get("rbytes", 0)),
                    written_bytes=int(values.get("wbytes", 0)),
                )
            )
    return disks


def parse_blkio(counts: str, sizes: str) -> list[DiskCounters]:
    """Return the counters in the files of the blkio controller of cgroup v1: operations and bytes."""
    number, size = _parse_blkio_file(counts), _parse_blkio_file(sizes)
    return [
        DiskCounters(
            device=_device_path(device),
            reads=number.get((device, "Read"), 0),
            writes=number.get((device, "Write"), 0),
            read_bytes=size.get((device, "Read"), 0),
            written_bytes=size.get((device, "Write"), 0),
        )
        for device in dict.fromkeys(device for device, _ in number)
    ]


def _parse_blkio_file(text: str) -> dict[tuple[str, str], int]:
    rows = [line.split() for line in text.splitlines()]
    return {(row[0], row[1]): int(row[2]) for row in rows if len(row) == 3 and row[2].isdecimal()}


@cache
def _device_path(number: str) -> str:
    """Return the path of a block device, such as /dev/sda for 8:0; the number if the device has no name."""
    lines = _text(Path("/sys/dev/block") / number / "uevent").splitlines()
    name = next((line.removeprefix("DEVNAME=") for line in lines if line.startswith("DEVNAME=")), "")
    return f"/dev/{name}" if name else number


def _place(controller: str, cgroup: str) -> Path:
    return _ROOT / controller / cgroup.strip("/")


def _pairs(path: Path) -> dict[str, int]:
    rows = [line.split() for line in _text(path).splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _number(path: Path) -> int:
    try:
        return int(_text(path))
    except ValueError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


class OciUsage:
    def __init__(self, *, clock: Clock) -> None:
        self._clock, self._rates, self._meter = clock, CpuRates(), TreeMeter(clock=clock)

    def measure_container(self, record: ContainerRecord, directory: Path) -> ContainerUsage:
        """Return the usage of a container. `directory` is the directory of the container. The call blocks, so run it in
        a thread.
        """
        used = usage(record.cgroup)
        size, inodes = measure_writable_layers(directory, self._meter)
        return ContainerUsage(
            name=record.name,
            cpu_cores=self._rates.rate(record.id, used.cpu_s, self._clock.monotonic()),
            memory_bytes=used.memory_bytes,
            cpu_s=used.cpu_s,
            memory_rss_bytes=used.rss_bytes,
            page_faults=used.page_faults,
            major_page_faults=used.major_page_faults,
            disk_bytes=size,
            log_bytes=self._measure_logs(record),
            inodes=inodes,
            processes=used.processes,
            cache_bytes=used.cache_bytes,
            swap_bytes=used.swap_bytes,
            throttling=used.throttling,
            disks=used.disks,
        )

    def _measure_logs(self, record: ContainerRecord) -> int:
        """Return the size of all logs of the container, including those that have been rotated."""
        try:
            return self._meter.measure(Path(record.log_path).parent).size if record.log_path else 0
        except OSError:
            return 0

    def forget(self, record: ContainerRecord) -> None:
        self._rates.forget(record.id)
