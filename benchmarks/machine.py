"""What the figures depend on: how fast this machine is now, its cores, its Python, its disk."""

import hashlib
import os
import platform
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

REFERENCE_S = 0.00799
"""What `_fixed_work` takes on the machine that the goals are stated for."""


class Machine(NamedTuple):
    cores: int
    processor: str
    python: str
    sqlite: str
    fsyncs_per_s: float
    directory: str
    """Where the disk was measured, and where the stores of the measurements lie."""


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
    """1.0 on the reference machine, 2.0 where the same work takes twice the CPU time. The best of some tries, so that
    what else runs here counts less."""
    return min(_fixed_work() for _ in range(tries)) / REFERENCE_S


def _fixed_work() -> float:
    """CPU seconds of a fixed mixture of interpreter, dict and C work."""
    start = time.process_time()
    digest, last_seen = hashlib.sha256(), {}
    for number in range(60_000):
        last_seen[str(number % 997)] = number
        digest.update(b"x")
    return time.process_time() - start


def fsync_rate(directory: str, tries: int = 3) -> float:
    """How many times a second 4 KB can be appended and brought to disk, one after the other; the best of some tries."""
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
