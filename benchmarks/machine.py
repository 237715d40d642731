"""The machine that the figures depend on: its present speed, cores, Python and disk."""

import hashlib
import os
import platform
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

REFERENCE_S = 0.00799
"""The CPU seconds of `_fixed_work` on the reference machine, for which the goals are stated."""


class Machine(NamedTuple):
    cores: int
    processor: str
    python: str
    sqlite: str
    fsyncs_per_s: float
    directory: str
    """The directory of the stores, in which the disk was measured."""


def describe() -> Machine:
    directory = tempfile.gettempdir()
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=_processor(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        sqlite=sqlite3.sqlite_version,
        fsyncs_per_s=fsync_rate(directory),
        directory=directory,
    )


def calibration(tries: int = 9) -> float:
    """Return 1.0 on the reference machine, 2.0 if the same work takes twice the CPU time. It is the best of some tries,
    so that other processes matter less."""
    return min(_fixed_work() for _ in range(tries)) / REFERENCE_S


def _fixed_work() -> float:
    """Return the CPU seconds of a fixed mixture of interpreter, dict and C work."""
    start = time.process_time()
    digest, last_seen = hashlib.sha256(), {}
    for number in range(60_000):
        last_seen[str(number % 997)] = number
        digest.update(b"x")
    return time.process_time() - start


def fsync_rate(directory: str, tries: int = 3) -> float:
    """Return how many times per second 4 KB can be appended and synced to disk, in the best of some tries."""
    return max(_fsync_rate(directory, seconds=0.4) for _ in range(tries))


def _fsync_rate(directory: str, *, seconds: float) -> float:
    block, count = bytes(4096), 0
    with tempfile.TemporaryFile(dir=directory) as file:
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            count += 1
    return count / elapsed


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
