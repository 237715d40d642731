"""Starting a cluster: the time until it is ready, its memory and CPU time while it is empty, and its cost in a test."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import Row
from benchmarks.processes import cpu_s, resident_mb
from tests.cli.command import Sampan, wait_until_ready
from tests.ports import free_port

STARTS = 10
SETTLE_S, IDLE_S = 2, 10


def rows() -> Iterator[Row]:
    yield from _up()
    yield from _kubectl()
    yield from _in_a_test()


# -- sampan up -------------------------------------------------------------------------------------------------------


def _up() -> Iterator[Row]:
    again = f"median of {STARTS}, process to ok, TLS"
    with tempfile.TemporaryDirectory() as home:
        sampan = _installed(Path(home))
        _start(sampan, name="first")
        new = [_start(sampan, name=f"new-{number}") for number in range(STARTS)]
        _start(sampan, name="kept")
        kept = [_start(sampan, name="kept") for _ in range(STARTS)]
        yield Row("`sampan up` to /readyz, a new cluster", statistics.median(new), "s", goal=1.0, note=again)
        yield Row("`sampan up` to /readyz, started before", statistics.median(kept), "s", goal=1.0, note=again)
        with _running(sampan, name="empty") as (process, _):
            yield Row("empty server, resident", resident_mb(process.pid), "MB", goal=90, note="after the start")
            time.sleep(SETTLE_S)
            before = cpu_s(process.pid)
            time.sleep(IDLE_S)
            idle = (cpu_s(process.pid) - before) / IDLE_S * 100
            yield Row("empty server, idle", idle, "% of a core", goal=1, note=f"over {IDLE_S} s")
            yield Row("empty server, resident after a while", resident_mb(process.pid), "MB", goal=90)


def _installed(home: Path) -> Sampan:
    """With compiled modules, as any package that pip has installed has them; the first start makes them."""
    sampan = Sampan(home)
    sampan.environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return sampan


def _start(sampan: Sampan, *, name: str) -> float:
    with _running(sampan, name=name) as (_, took_s):
        return took_s


@contextmanager
def _running(sampan: Sampan, *, name: str) -> Iterator[tuple["subprocess.Popen[str]", float]]:
    port, began = free_port(), time.monotonic()
    with sampan.running_command("up", "--name", name, "--secure-port", str(port)) as process:
        wait_until_ready(f"https://127.0.0.1:{port}")
        yield process, time.monotonic() - began


# -- sampan kubectl --------------------------------------------------------------------------------------------------


def _kubectl() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        sampan = _installed(Path(home))
        sampan("up", "--detach", "--store", "memory", "--secure-port", str(free_port()))
        try:
            times = [_timed(sampan, "kubectl", "get", "pods", "-A") for _ in range(STARTS)]
        finally:
            sampan("down")
    yield Row("`sampan kubectl get pods`", statistics.median(times), "s", goal=0.3, note=f"median of {STARTS}")


def _timed(sampan: Sampan, *words: str) -> float:
    began = time.perf_counter()
    sampan(*words)
    return time.perf_counter() - began


# -- sampan.testing --------------------------------------------------------------------------------------------------

_MEASURE = """
import time
began = time.perf_counter()
from sampan.testing.cluster import Cluster
imported = time.perf_counter()
with Cluster():
    first = time.perf_counter()
    with Cluster() as second:
        ready = time.perf_counter()
        second.warm_up()
        made = []
        for _ in range(50):
            start = time.perf_counter()
            with second.namespace():
                made.append(time.perf_counter() - start)
        second.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{i}"}} for i in range(300)])
        forks = []
        for _ in range(9):
            start = time.perf_counter()
            with second.fork():
                forks.append(time.perf_counter() - start)
print(imported - began, first - imported, ready - first, sorted(made)[25], max(made), sorted(forks)[4])
"""


def _in_a_test() -> Iterator[Row]:
    figures = [_measured() for _ in range(5)]
    medians = [statistics.median(column) * 1000 for column in zip(*figures, strict=True)]
    imported, first, second, isolation, worst, fork = medians
    yield Row("sampan.testing, import", imported, "ms", note="once a process")
    yield Row("Cluster(), the first of a process", first, "ms", goal=300, note="with new keys")
    yield Row("Cluster(), another one", second, "ms", goal=100)
    yield Row("a namespace for a test, median", isolation, "ms", goal=50, note="with its service account")
    yield Row("a namespace for a test, worst of 50", worst, "ms", goal=50)
    yield Row("Cluster.fork(), with 300 objects", fork, "ms", goal=50)


def _measured() -> list[float]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", _MEASURE], capture_output=True, text=True, check=True, env=kept)
    return [float(figure) for figure in done.stdout.split()]
