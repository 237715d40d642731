"""Resource usage of the machine from /proc and the file system."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.runtimes.usage import CpuRates

_PROC = Path("/proc")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    capacity: int = 0
    available: int = 0
    used: int = 0
    inodes: int = 0
    inodes_free: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    name: str
    received: int = 0
    receive_errors: int = 0
    sent: int = 0
    send_errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStats:
    at: float
    cores: int = 1
    cpu_s: float = 0.0
    """CPU seconds of all cores since boot."""
    cpu_cores: float = 0.0
    """Cores in use at the moment."""
    memory: int = 0
    memory_available: int = 0
    memory_used: int = 0
    working_set: int = 0
    rss: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    swap: int = 0
    swap_used: int = 0
    processes: int = 0
    max_processes: int = 0
    booted_at: float = 0.0
    root: FileSystem = field(default_factory=FileSystem)
    """File system of the kubelet's data."""
    interfaces: Sequence[Interface] = ()


class MachineReader:
    """Reads the current usage at every call. CPU usage is available from the second call on."""

    def __init__(self, *, directory: Path, proc: Path = _PROC) -> None:
        self._directory, self._proc = directory, proc
        self._rates = CpuRates()

    def read(self, now: float) -> MachineStats:
        stat, memory, vmstat = self._stat(), self._pairs("meminfo"), self._pairs("vmstat")
        cpu_s = _cpu_s(stat.get("cpu", []))
        total, free = memory.get("MemTotal:", 0) * _KIB, memory.get("MemFree:", 0) * _KIB
        inactive = memory.get("Inactive(file):", 0) * _KIB
        working_set = max(total - free - inactive, 0)
        swap = memory.get("SwapTotal:", 0) * _KIB
        return MachineStats(
            at=now,
            cores=os.cpu_count() or 1,
            cpu_s=cpu_s,
            cpu_cores=self._rates.rate("machine", cpu_s, now),
            memory=total,
            memory_used=total - free,
            memory_available=max(total - working_set, 0),
            working_set=working_set,
            rss=memory.get("AnonPages:", 0) * _KIB,
            page_faults=vmstat.get("pgfault", 0),
            major_page_faults=vmstat.get("pgmajfault", 0),
            swap=swap,
            swap_used=swap - memory.get("SwapFree:", 0) * _KIB,
            processes=sum(name.isdecimal() for name in os.listdir(self._proc)),
            max_processes=self._number("sys/kernel/pid_max"),
            booted_at=float(stat.get("btime", ["0"])[0]),
            root=file_system(self._directory),
            interfaces=interfaces(self._text("net/dev")),
        )

    def _stat(self) -> Mapping[str, list[str]]:
        return {words[0]: words[1:] for line in self._text("stat").splitlines() if (words := line.split())}

    def _pairs(self, name: str) -> Mapping[str, int]:
        lines = (line.split() for line in self._text(name).splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}

    def _number(self, name: str) -> int:
        text = self._text(name).strip()
        return int(text) if text.isdecimal() else 0

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text()
        except OSError:
            return ""


def _cpu_s(ticks: Sequence[str]) -> float:
    """Return the CPU time except idle and I/O wait. Guest time is already included in user time."""
    numbers = [int(tick) for tick in ticks[:8]]
    busy = sum(numbers) - sum(numbers[3:5])
    return busy / os.sysconf("SC_CLK_TCK")


def file_system(directory: Path) -> FileSystem:
    try:
        status = os.statvfs(directory)
    except OSError:
        return FileSystem()
    return FileSystem(
        capacity=status.f_blocks * status.f_frsize,
        available=status.f_bavail * status.f_frsize,
        used=(status.f_blocks - status.f_bfree) * status.f_frsize,
        inodes=status.f_files,
        inodes_free=status.f_ffree,
    )


def interfaces(text: str) -> list[Interface]:
    """Parse /proc/net/dev; the loopback interface is omitted."""
    result = []
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and len(numbers) >= 16 and name.strip() != "lo":
            received, errors, sent, lost = (int(numbers[column]) for column in (0, 2, 8, 10))
            result.append(
                Interface(name=name.strip(), received=received, receive_errors=errors, sent=sent, send_errors=lost)
            )
    return result
