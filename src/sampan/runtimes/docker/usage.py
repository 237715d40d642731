"""The resource usage of pods on the Docker Engine."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from sampan.machinery.clock import Clock
from sampan.runtimes import contract
from sampan.runtimes.contract import Usage
from sampan.runtimes.cpu_rates import CpuRates
from sampan.runtimes.docker import seen
from sampan.runtimes.docker.client import DockerClient, DockerError
from sampan.runtimes.pod_table import SeenContainer, SeenPod, SeenSandbox


class DockerUsage:
    def __init__(self, *, client: DockerClient, rates: CpuRates, clock: Clock) -> None:
        self._client, self._rates, self._clock = client, rates, clock

    async def of_pod(self, pod: SeenPod | None) -> Sequence[Usage]:
        if pod is None or pod.sandbox is None or not pod.sandbox.is_ready:
            return []
        running = [item for item in pod.containers if item.state == contract.RUNNING]
        looks = await asyncio.gather(*(self._of_container(container) for container in running))
        used = [item for item in looks if item is not None]
        return [_of_sandbox(pod.sandbox, used), *used]

    async def _of_container(self, container: SeenContainer) -> Usage | None:
        query = {"stream": "false", "one-shot": "true"}
        try:
            stats = await self._client.get(f"/containers/{container.id}/stats", query)
        except DockerError as error:
            if error.is_missing:
                return None
            raise
        cores = self._rates.rate(container.id, seen.cpu_s(stats), self._clock.monotonic())
        usage = seen.usage(container.name, stats, cores)
        usage.log_bytes = _size(container.log_path)
        return usage


def _of_sandbox(sandbox: SeenSandbox, parts: Sequence[Usage]) -> Usage:
    """Return the sum of the containers' usage. The usage of the pause container is negligible."""
    whole = Usage(
        name="",
        cpu_cores=sum(usage.cpu_cores for usage in parts),
        memory_bytes=sum(usage.memory_bytes for usage in parts),
        cpu_s=sum(usage.cpu_s or 0 for usage in parts),
        memory_rss_bytes=sum(usage.memory_rss_bytes or 0 for usage in parts),
        processes=sum(usage.processes or 0 for usage in parts) + 1,
    )
    with contextlib.suppress(OSError):
        counts = seen.network_bytes(Path(f"/proc/{sandbox.pid}/net/dev").read_text())
        whole.received_bytes, whole.sent_bytes = counts or (None, None)
    return whole


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except OSError:
        return None
