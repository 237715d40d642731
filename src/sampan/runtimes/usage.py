"""CPU usage rates in cores, computed from samples of accumulated CPU time; and the usage of a whole pod, for runtimes
that report only its containers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from sampan.runtimes.contract import ContainerUsage, InterfaceCounters

_MIN_INTERVAL_S = 0.1
"""The shortest time over which a rate is computed. CPU times are counted in ticks of 10 ms, so a rate over a shorter
time would mean nothing."""


class CpuRates:
    """Computes CPU usage rates by container id."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float, float]] = {}
        """The last sample by container id: its time, the CPU time in seconds that it showed, and the rate computed from
        it."""

    def rate(self, id: str, used_s: float, now: float, *, started_at: float | None = None) -> float:
        """Return the rate since the last sample. That of the first sample is the average since `started_at`, or 0 if
        that is None."""
        before = self._last.get(id)
        if before is None and started_at is not None:
            before = (started_at, 0.0, 0.0)
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
            interfaces = whole.interfaces = parse_interfaces(Path(f"/proc/{pid}/net/dev").read_text())
            if interfaces:
                whole.received_bytes = sum(interface.received for interface in interfaces)
                whole.sent_bytes = sum(interface.sent for interface in interfaces)
    return whole


def parse_interfaces(net_dev: str) -> list[InterfaceCounters]:
    """Return the counters of all interfaces except loopback, from the text of /proc/PID/net/dev."""
    result = []
    for line in net_dev.splitlines():
        name, colon, remainder = line.partition(":")
        numbers = [int(number) for number in remainder.split()] if colon else []
        if len(numbers) >= 16 and name.strip() != "lo":
            result.append(
                InterfaceCounters(
                    name=name.strip(),
                    received=numbers[0],
                    received_packets=numbers[1],
                    receive_errors=numbers[2],
                    receive_dropped=numbers[3],
                    sent=numbers[8],
                    sent_packets=numbers[9],
                    send_errors=numbers[10],
                    send_dropped=numbers[11],
                )
            )
    return result
