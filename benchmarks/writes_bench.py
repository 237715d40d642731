"""Writes of pods through the whole pipeline without HTTP, on the memory store: decode, default, admission, validation,
store, watch cache. What a write costs beyond this is the transport, which the goals leave 0.3 ms and more to."""

import asyncio
from collections.abc import Iterator

import msgspec

from benchmarks import Row
from benchmarks.api_pipeline import JSON, PODS, cpu_us, make_call, memory_pipeline
from benchmarks.sample_pods import condition, pending_pod

COUNT = 1000
STRATEGIC = {**JSON, "Content-Type": "application/strategic-merge-patch+json"}


def rows() -> Iterator[Row]:
    created, patched, deleted = asyncio.run(_measure())
    yield Row("create a pod, without HTTP", created, "us", 500, "memory store")
    yield Row("patch a pod's status, without HTTP", patched, "us", 600, "memory store")
    yield Row("delete a pod, without HTTP", deleted, "us", 300, "memory store")


async def _measure() -> tuple[float, float, float]:
    async with memory_pipeline() as pipeline:
        names = [f"p{i:06d}" for i in range(COUNT)]
        status = msgspec.json.encode({"status": {"phase": "Running", "conditions": [condition("Ready", "True")]}})
        await pipeline.serve_as(make_call("POST", PODS, _new_pod("warm"), JSON))
        created = await cpu_us(pipeline, [make_call("POST", PODS, _new_pod(name), JSON) for name in names])
        patches = [make_call("PATCH", f"{PODS}/{name}/status", status, STRATEGIC) for name in names]
        patched = await cpu_us(pipeline, patches)
        deletions = [make_call("DELETE", f"{PODS}/{name}", b"", JSON, "gracePeriodSeconds=0") for name in names]
        return created, patched, await cpu_us(pipeline, deletions)


def _new_pod(name: str) -> bytes:
    """Return a pod as a client sends it: a name, labels, and containers without defaults."""
    container = {key: value for key, value in pending_pod()["spec"]["containers"][0].items() if key in _SENT}
    metadata = {"name": name, "labels": {"app": "bench", "shard": name[-1]}}
    return msgspec.json.encode({"metadata": metadata, "spec": {"containers": [container]}})


_SENT = ("name", "image", "command", "env", "ports", "resources", "readinessProbe")
