"""The resource usage of pods on a CRI runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.machinery.clock import Clock
from sampan.runtimes import contract
from sampan.runtimes.contract import Usage
from sampan.runtimes.cpu_rates import CpuRates
from sampan.runtimes.cri import seen
from sampan.runtimes.cri.client import CriClient, CriError
from sampan.runtimes.pod_table import SeenContainer, SeenPod, SeenSandbox


class CriUsage:
    def __init__(self, *, client: CriClient, rates: CpuRates, clock: Clock) -> None:
        self._client, self._rates, self._clock = client, rates, clock

    async def of_pod(self, pod: SeenPod | None) -> Sequence[Usage]:
        if pod is None or pod.sandbox is None or not pod.sandbox.is_ready:
            return []
        cri = self._client.schema
        request = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(pod_sandbox_id=pod.sandbox.id))
        listed = await self._client.runtime("ListContainerStats", request)
        running = {container.id: container for container in pod.containers if container.state == contract.RUNNING}
        own = [container for container in listed.stats if container.attributes.id in running]
        return [*await self._of_sandbox(pod.sandbox), *(self._of_container(container, running) for container in own)]

    async def _of_sandbox(self, sandbox: SeenSandbox) -> list[Usage]:
        """Return the usage of the sandbox, or nothing for old runtimes, which do not report it."""
        request = self._client.schema.SandboxRequest(pod_sandbox_id=sandbox.id)
        try:
            answer = await self._client.runtime("PodSandboxStats", request)
        except CriError:
            return []
        used_s = answer.stats.linux.cpu.usage_core_nano_seconds.value / 1e9
        return [seen.sandbox_usage(answer.stats, self._rates.rate(sandbox.id, used_s, self._clock.monotonic()))]

    def _of_container(self, stats: Any, running: Mapping[str, SeenContainer]) -> Usage:
        id, used_s = stats.attributes.id, stats.cpu.usage_core_nano_seconds.value / 1e9
        usage = seen.container_usage(stats, self._rates.rate(id, used_s, self._clock.monotonic()))
        with contextlib.suppress(OSError):
            usage.log_bytes = Path(running[id].log_path).stat().st_size
        return usage
