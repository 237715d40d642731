"""Responses in several forms: a pod and 1,000 of them, from the pipeline to the bytes of the response; OpenAPI."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from benchmarks import Row
from benchmarks.api_pipeline import ADMIN, PODS, memory_pipeline
from benchmarks.timing import best_ns
from sampan.api.scheme import builtin_scheme
from sampan.apiserver.metrics import RequestMetrics
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.response.renderer import Renderer
from sampan.machinery.telemetry.metrics import Metrics

PROTOBUF = "application/vnd.kubernetes.protobuf"
FORMS = {
    "JSON": ("application/json", 6.0),
    "a table": ("application/json;as=Table;v=v1;g=meta.k8s.io", 40.0),
    "metadata": ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", 12.0),
    "protobuf, asked for again": (PROTOBUF, 12.0),
}


def _call(method: str, path: str, accept: str = "", body: bytes = b"") -> Call:
    headers = {"Accept": accept, "User-Agent": "kubectl/v1.36.0"}
    return Call(method=method, path=path, query=Query(""), headers=headers, body=body, user=ADMIN)


def _pod(number: int) -> bytes:
    containers = [
        {"name": f"c{n}", "image": "example.com/web:1", "env": [{"name": "A", "value": "b"}]} for n in range(3)
    ]
    metadata = {"name": f"pod-{number:04}", "labels": {"app": "web"}, "annotations": {"note": "n" * 1500}}
    return msgspec.json.encode({"metadata": metadata, "spec": {"containers": containers}})


async def _cpu_ms(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Return the CPU milliseconds of a call in the best of three rounds."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        for _ in range(times):
            await work()
        best = min(best, time.process_time() - start)
    return best / times * 1000


async def _measure() -> list[Row]:
    async with memory_pipeline() as pipeline:
        renderer = Renderer(endpoints=pipeline.endpoints)

        async def ask(path: str, accept: str) -> int:
            call = _call("GET", path, accept)
            answer: Any = await pipeline.serve_as(call)
            rendered = await renderer.render(answer, call.output_format, call)
            return sum(len(chunk) for chunk in rendered.chunks)

        for number in range(1000):
            await pipeline.serve_as(_call("POST", PODS, body=_pod(number)))
        one = await _cpu_ms(lambda: ask(f"{PODS}/pod-0500", "application/json"), 2000)
        rows = [Row("get a pod as JSON", one * 1000, "us", 40)]
        for name, (accept, goal) in FORMS.items():
            rows.append(
                Row(f"list 1,000 pods as {name}", await _cpu_ms(lambda a=accept: ask(PODS, a), 2), "ms", goal)  # type: ignore[misc]
            )
        start = time.process_time()
        await ask("/openapi/v3/api/v1", "application/json")
        rows.append(Row("OpenAPI v3 of the core group, made", (time.process_time() - start) * 1000, "ms", 120))
        return rows


def rows() -> Iterator[Row]:
    yield from asyncio.run(_measure())
    resource = builtin_scheme().resource("", "v1", "pods")
    call = _call("GET", f"{PODS}/a")
    call.resource, call.verb, call.namespace, call.name = resource, "get", "default", "a"
    metrics = RequestMetrics(metrics=Metrics())
    yield Row("count a request", best_ns(lambda: metrics.record_request(call, 200, 0.001, 3500)), "ns", 3000)
