"""CPU usage rates in cores, computed from samples of accumulated CPU time; and the usage of a whole pod, for runtimes
that report only its containers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from sampan.runtimes.contract import ContainerUsage

_MIN_INTERVAL_S = 0.1
"""The shortest time over which a rate is computed. CPU times are counted in ticks of 10 ms, so a rate over a shorter
time would mean nothing."""


class CpuRates:
    """Computes CPU usage rates by container id. The first sample of an id yields 0."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float, float]] = {}
        """The last sample by container id: its time, the CPU time in seconds that it showed, and the rate computed from
        it."""

    def rate(self, id: str, used_s: float, now: float) -> float:
        before = self._last.get(id)
        elapsed_s = now - before[0] if before is not None else 0.0
        if before is None or used_s < before[1]:
            cores = 0.0
        elif 0 <= elapsed_s < _MIN_INTERVAL_S:
            return before[2]
        elif elapsed_s < 0:  # the clock was set back
            cores = before[2]
        else:
            cores = (used_s - before[1]) / elapsed_s
        self._last[id] = (now, used_s, cores)
        return cores

    def forget(self, id: str) -> None:
        self._last.pop(id, None)


def pod_usage(containers: Sequence[ContainerUsage], *, pid: int, extra_processes: int = 0) -> ContainerUsage:
    """Return the sum of the containers' usage, with the traffic of the pod's network namespace.

    `pid` is a process in that namespace, 0 if the pod has none of its own. `extra_processes` is the number of processes
    of the sandbox, whose other usage is negligible.
    """
    whole = ContainerUsage(
        name="",
        cpu_cores=sum(usage.cpu_cores for usage in containers),
        memory_bytes=sum(usage.memory_bytes for usage in containers),
        cpu_s=sum(usage.cpu_s or 0 for usage in containers),
        memory_rss_bytes=sum(usage.memory_rss_bytes or 0 for usage in containers),
        page_faults=sum(usage.page_faults or 0 for usage in containers),
        major_page_faults=sum(usage.major_page_faults or 0 for usage in containers),
        processes=sum(usage.processes or 0 for usage in containers) + extra_processes,
    )
    if pid:
        with contextlib.suppress(OSError):
            counts = network_bytes(Path(f"/proc/{pid}/net/dev").read_text())
            whole.received_bytes, whole.sent_bytes = counts or (None, None)
    return whole


def network_bytes(net_dev: str) -> tuple[int, int] | None:
    """Return the bytes received and sent by all interfaces except loopback, from the text of /proc/PID/net/dev. Return
    None if there is no such interface."""
    rows = [line.partition(":") for line in net_dev.splitlines() if ":" in line]
    counts = [rest.split() for name, _, rest in rows if name.strip() != "lo"]
    return (sum(int(row[0]) for row in counts), sum(int(row[8]) for row in counts)) if counts else None
