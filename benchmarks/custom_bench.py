"""Custom resources through the whole pipeline without HTTP: the cost of a create compared with a config map of the same
size, of a validation rule, and of a large definition."""

import asyncio
import gc
import statistics
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec

from benchmarks import Row
from benchmarks.api_pipeline import JSON, cpu_us, make_call, memory_pipeline
from sampan.api.schema.tree import from_openapi
from sampan.apiserver.customresources.controller import DefinitionController
from sampan.apiserver.customresources.metrics import CustomResourceMetrics
from sampan.apiserver.customresources.objects.custom_schema import CustomSchema
from sampan.apiserver.customresources.objects.rules import RuleValidator
from sampan.apiserver.pipeline import Pipeline
from sampan.machinery.telemetry.metrics import Metrics

COUNT, LARGE, ROUNDS = 1000, 10, 10
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS, WIDGETS = "/api/v1/namespaces/default/configmaps", "/apis/bench.example.com/v1/namespaces/default/widgets"
DATA = {f"key{number}": "v" * 50 for number in range(20)}
WIDGET = {"type": "object", "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}}}


def rows() -> Iterator[Row]:
    plain, custom, established_ms, large_ms, large_kb = asyncio.run(_measure())
    yield Row("create a config map of 1 KB, without HTTP", plain, "us", None, "memory store")
    yield Row("create a custom resource of the same size", custom, "us", None, "memory store")
    yield Row("custom resource compared with a config map", custom / plain * 100, "%", 130)
    yield Row("create a definition until it is served", established_ms, "ms", 100, "median, time that goes by")
    yield Row("create a definition with a schema of 200 KB", large_ms, "ms", 100)
    yield Row("memory of such a definition, served", large_kb, "KB", None, "its JSON is in the watch cache")
    yield Row("compile a schema of 200 KB", _compile_ms(), "ms", 150, "in a thread, with the first write")
    yield Row("evaluate a validation rule", _rule_us(), "us", 30)


async def _measure() -> tuple[float, float, float, float, float]:
    async with memory_pipeline() as pipeline:
        metrics = CustomResourceMetrics(metrics=Metrics())
        controller = DefinitionController(pipeline=pipeline, webhooks=None, metrics=metrics)
        running = asyncio.create_task(controller.run())
        await controller.wait_synced()
        await _define(pipeline, "widgets", "Widget", WIDGET)
        await cpu_us(pipeline, [_create(path, kind, "warm") for path, kind in _KINDS])
        plain, custom = await _create_us(pipeline)
        established_ms = await _established_ms(pipeline)
        start = time.process_time()
        for number in range(LARGE):
            await _define(pipeline, f"timed{number}", f"Timed{number}", _large_schema())
        large_ms = (time.process_time() - start) / LARGE * 1e3
        tracemalloc.start()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(LARGE):
            await _define(pipeline, f"larges{number}", f"Large{number}", _large_schema())
        gc.collect()
        large_kb = (tracemalloc.get_traced_memory()[0] - before) / LARGE / 1024
        tracemalloc.stop()
        running.cancel()
        return plain, custom, established_ms, large_ms, large_kb


async def _create_us(pipeline: Pipeline) -> tuple[float, float]:
    """Return the CPU time of a create of a config map and of a custom resource: the best of rounds that alternate, so
    that both have the same luck with a busy machine."""
    figures: tuple[list[float], list[float]] = [], []
    for round_number in range(ROUNDS):
        for times, (path, kind) in zip(figures, _KINDS, strict=True):
            names = [f"a{round_number}-{number}" for number in range(COUNT // ROUNDS)]
            times.append(await cpu_us(pipeline, [_create(path, kind, name) for name in names]))
    return min(figures[0]), min(figures[1])


async def _established_ms(pipeline: Pipeline) -> float:
    """Return the time from the request to a resource that is served."""
    figures = []
    for number in range(ROUNDS):
        start = time.perf_counter()
        await _define(pipeline, f"soon{number}", f"Soon{number}", WIDGET)
        figures.append((time.perf_counter() - start) * 1e3)
    return statistics.median(figures)


_KINDS = ((CONFIG_MAPS, ("v1", "ConfigMap")), (WIDGETS, ("bench.example.com/v1", "Widget")))


def _create(path: str, kind: tuple[str, str], name: str) -> Any:
    value = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name}, "data": DATA}
    return make_call("POST", path, msgspec.json.encode(value), JSON)


async def _define(pipeline: Pipeline, plural: str, kind: str, schema: dict[str, Any]) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind}
    spec = {"group": "bench.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    value = {"metadata": {"name": f"{plural}.bench.example.com"}, "spec": spec}
    await pipeline.serve_as(make_call("POST", DEFINITIONS, msgspec.json.encode(value), JSON))
    scheme = pipeline.endpoints.registry.scheme
    while scheme.resource("bench.example.com", "v1", plural) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def _large_schema() -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": _nested(3), "status": _nested(3)}}


def _nested(depth: int) -> dict[str, Any]:
    if not depth:
        return {
            "type": "string",
            "description": "The field has a description of as many words as most fields do.",
        }
    properties = {f"field{number}": _nested(depth - 1) for number in range(9)}
    return {"type": "object", "description": "An object with nine fields.", "properties": properties}


def _compile_ms() -> float:
    schema = CustomSchema(msgspec.json.encode(_large_schema()))
    start = time.process_time()
    schema.complete()
    return (time.process_time() - start) * 1e3


def _rule_us() -> float:
    numbers = {"min": {"type": "integer"}, "max": {"type": "integer"}}
    schema = {"type": "object", "properties": numbers, "x-kubernetes-validations": [{"rule": "self.min <= self.max"}]}
    validator = RuleValidator(from_openapi(schema))
    start = time.process_time()
    for _ in range(COUNT):
        validator.validate({"min": 1, "max": 2})
    return (time.process_time() - start) / COUNT * 1e6
