"""Summaries of kubelets, queried on demand and cached for a short time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json as json_codec
from sampan.machinery import errors
from sampan.machinery.clock import Clock

if TYPE_CHECKING:
    from sampan.apiserver.proxy.upstream import Upstream

log = logging.getLogger(__name__)

_KEPT_S = 10.0
_TIMEOUT_S = 5.0
_AT_ONCE = 32
_PATH = "/stats/summary?only_cpu_and_memory=true"

Summary = Mapping[str, Any]


class Summaries:
    def __init__(self, *, upstream: Upstream, clock: Clock) -> None:
        self._upstream, self._clock = upstream, clock
        self._kept: dict[str, tuple[float, Summary]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def of(self, nodes: Iterable[str]) -> dict[str, Summary]:
        """Return the summaries by node; nodes that do not respond are omitted."""
        names = list(nodes)
        summaries = await asyncio.gather(*(self._of(name) for name in names))
        return {name: summary for name, summary in zip(names, summaries, strict=True) if summary is not None}

    async def _of(self, node: str) -> Summary | None:
        now = self._clock.monotonic()
        kept = self._kept.get(node)
        if kept is not None and 0 <= now - kept[0] < _KEPT_S:
            return kept[1]
        try:
            async with self._limit, asyncio.timeout(_TIMEOUT_S):
                summary = await self._asked(node)
        except (errors.ApiError, OSError, TimeoutError, ValueError) as error:
            log.debug("no metrics from node %s: %s", node, error)
            self._kept.pop(node, None)
            return None
        self._kept[node] = now, summary
        return summary

    async def _asked(self, node: str) -> Summary:
        kubelets = self._upstream.kubelets
        if (local := kubelets.local(node)) is not None:
            return await local.summary()
        summary = json_codec.read_any(await self._upstream.read(await kubelets.location(node), _PATH))
        if not isinstance(summary, dict):
            raise ValueError("the kubelet's summary is not an object")
        return summary
