"""`sampan kubelet` in a test: it leaves its monitor to the next one, and there is none."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sampan.runtimes.monitor.client import MonitorClient
from tests.cli.command import Sampan


@contextmanager
def running_kubelet(sampan: Sampan, root: Path, *words: str) -> Iterator[None]:
    """With the runtime process, which needs neither root nor an engine."""
    common = ("--root-dir", str(root), "--runtime", "process", "--node-ip", "127.0.0.1", "--cgroups-per-qos=false")
    try:
        with sampan.running("kubelet", *common, *words):
            yield
    finally:
        asyncio.run(MonitorClient(root / "runtime" / "process" / "monitor").quit(kill=True))
