"""The resource usage of containers, from their cgroups and files."""

from __future__ import annotations

import os
from pathlib import Path

from sampan.machinery.clock import Clock
from sampan.runtimes.contract import Usage
from sampan.runtimes.cpu_rates import CpuRates
from sampan.runtimes.oci import cgroups, rootfs
from sampan.runtimes.records import ContainerRecord


class OciUsage:
    def __init__(self, *, clock: Clock) -> None:
        self._clock, self._rates = clock, CpuRates()

    def of_container(self, record: ContainerRecord, directory: Path) -> Usage:
        """Return the usage of a container. `directory` is the directory of the container. The call blocks, so run it in
        a thread.
        """
        used = cgroups.usage(record.cgroup)
        size, inodes = rootfs.written_bytes(directory)
        return Usage(
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
