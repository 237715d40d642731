"""CPU time and memory of processes, as the kernel accounts for them."""

import os
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int, *, with_children: bool = False) -> float:
    """Return the CPU time of a process; `with_children` adds its children that have ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / _TICKS_PER_S


def own_cpu_s(*, with_children: bool = False) -> float:
    """Return the same of this process, more exactly."""
    usages = [getrusage(who) for who in (RUSAGE_SELF, *((RUSAGE_CHILDREN,) if with_children else ()))]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def resident_mb(pid: int | None = None) -> float:
    """Return the resident memory of a process, by default this one."""
    pages = int(Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
