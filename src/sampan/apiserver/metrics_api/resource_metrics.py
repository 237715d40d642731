"""NodeMetrics and PodMetrics from the summaries of kubelets, queried on demand and cached for a short time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json as json_codec
from sampan.api.values.integers import MAX_INT64
from sampan.host.clock import Clock
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.proxy.upstream import UpstreamClient

log = logging.getLogger(__name__)

_CACHE_TTL_S = 10.0
_TIMEOUT_S = 5.0
_MAX_CONCURRENT_REQUESTS = 32
_PATH = "/stats/summary?only_cpu_and_memory=true"

Summary = Mapping[str, Any]


class KubeletSummaries:
    def __init__(self, *, upstream: UpstreamClient, clock: Clock) -> None:
        self._upstream, self._clock = upstream, clock
        self._kept: dict[str, tuple[float, Summary]] = {}
        self._limit = asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS)

    async def fetch_all(self, nodes: Iterable[str]) -> dict[str, Summary]:
        """Return the summaries by node; nodes that do not respond are omitted."""
        names = list(nodes)
        summaries = await asyncio.gather(*(self._fetch_cached(name) for name in names))
        return {name: summary for name, summary in zip(names, summaries, strict=True) if summary is not None}

    async def _fetch_cached(self, node: str) -> Summary | None:
        now = self._clock.monotonic()
        cached = self._kept.get(node)
        if cached is not None and 0 <= now - cached[0] < _CACHE_TTL_S:
            return cached[1]
        try:
            async with self._limit, asyncio.timeout(_TIMEOUT_S):
                summary = await self._fetch(node)
        except (errors.ApiError, OSError, TimeoutError, ValueError) as error:
            log.debug("no metrics from node %s: %s", node, error)
            self._kept.pop(node, None)
            return None
        self._kept[node] = now, summary
        return summary

    async def _fetch(self, node: str) -> Summary:
        kubelets = self._upstream.kubelets
        if (local := kubelets.find_local(node)) is not None:
            return await local.summary()
        summary = json_codec.read_any(await self._upstream.read(await kubelets.location(node), _PATH))
        if not isinstance(summary, dict):
            raise ValueError("the kubelet's summary is not an object")
        return summary


GROUP, VERSIONS = "metrics.k8s.io", ("v1", "v1beta1")
_WINDOW = "10s"
_TIME_LENGTH = 64

Value = dict[str, Any]


def node_metrics(version: str, name: str, labels: Mapping[str, str], summary: Mapping[str, Any]) -> Value | None:
    """Return the metrics of a node; None if the summary has none yet."""
    node = _as_mapping(summary.get("node"))
    usage = _usage(node)
    if usage is None:
        return None
    return _object(version, "NodeMetrics", {"name": name}, labels, node, {"usage": usage})


def pod_metrics(
    version: str, namespace: str, name: str, labels: Mapping[str, str], stats: Mapping[str, Any]
) -> Value | None:
    """Return the metrics of a pod; None if those of any container are missing, as a partial sum would mislead."""
    containers = []
    for container in _list(stats.get("containers")):
        usage = _usage(container)
        if usage is None or not isinstance(container.get("name"), str):
            return None
        containers.append({"name": container["name"], "usage": usage})
    if not containers:
        return None
    identity = {"name": name, "namespace": namespace}
    return _object(version, "PodMetrics", identity, labels, stats["containers"][0], {"containers": containers})


def pods_of(summary: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the statistics of a summary's pods by namespace and name."""
    pods = {}
    for stats in _list(summary.get("pods")):
        ref = _as_mapping(stats.get("podRef"))
        pods[str(ref.get("namespace")), str(ref.get("name"))] = stats
    return pods


def _object(
    version: str,
    kind: str,
    identity: Mapping[str, str],
    labels: Mapping[str, str],
    timed: Mapping[str, Any],
    content: Value,
) -> Value:
    time = str(_as_mapping(timed.get("cpu")).get("time", ""))[:_TIME_LENGTH]
    metadata: Value = {**identity, "creationTimestamp": time, **({"labels": dict(labels)} if labels else {})}
    title = {"kind": kind, "apiVersion": f"{GROUP}/{version}"}
    return {**title, "metadata": metadata, "timestamp": time, "window": _WINDOW, **content}


def _usage(stats: Mapping[str, Any]) -> Value | None:
    cpu = _count(_as_mapping(stats.get("cpu")).get("usageNanoCores"))
    memory = _count(_as_mapping(stats.get("memory")).get("workingSetBytes"))
    if cpu is None or memory is None:
        return None
    return {"cpu": f"{cpu}n" if cpu else "0", "memory": f"{memory // 1024}Ki" if memory >= 1024 else str(memory)}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object. Summaries are untrusted: a compromised kubelet may send anything."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [_as_mapping(item) for item in value] if isinstance(value, list) else []


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INT64
    return int(value) if is_count else None


def as_list(version: str, kind: str, items: Sequence[Value]) -> Value:
    plain = [{key: part for key, part in item.items() if key not in ("kind", "apiVersion")} for item in items]
    return {"kind": f"{kind}List", "apiVersion": f"{GROUP}/{version}", "metadata": {}, "items": plain}


def as_table(items: Sequence[Value], api_version: str) -> Value:
    columns = [
        {"name": "Name", "type": "string", "format": "name", "description": "Name of the resource", "priority": 0},
        *(
            {"name": name, "type": "string", "format": "", "description": f"Usage of {name}", "priority": 0}
            for name in ("cpu", "memory")
        ),
        {
            "name": "Window",
            "type": "string",
            "format": "duration",
            "description": "Interval over which the usage was measured",
            "priority": 0,
        },
    ]
    rows = [{"cells": _cells(item), "object": _partial(item, api_version)} for item in items]
    title = {"kind": "Table", "apiVersion": api_version, "metadata": {}}
    return {**title, "columnDefinitions": columns, "rows": rows}


def _cells(item: Value) -> list[str]:
    parts = [item["usage"]] if "usage" in item else [container["usage"] for container in item["containers"]]
    cpu = sum(int(part["cpu"].removesuffix("n")) for part in parts)
    memory = sum(_bytes(part["memory"]) for part in parts)
    return [item["metadata"]["name"], f"{cpu}n", f"{memory // 1024}Ki", item["window"]]


def _bytes(text: str) -> int:
    return int(text[:-2]) * 1024 if text.endswith("Ki") else int(text)


def _partial(item: Value, api_version: str) -> Value:
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": item["metadata"]}
