"""Writes of pods through the whole pipeline without HTTP, on the memory store: decode, default, admission, validation,
store, watch cache. What a write costs beyond this is the transport, which the goals leave 0.3 ms and more to."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from benchmarks import Row
from benchmarks.patch_bench import condition, pod
from sampan.api.scheme import builtin_scheme
from sampan.apiserver.admission.chain import AdmissionChain
from sampan.apiserver.authz import PrivilegedGroupAuthorizer, UnionAuthorizer
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.machinery.clock import RealClock
from sampan.storage.memory import MemoryBackend

COUNT = 1000
PODS = "/api/v1/namespaces/default/pods"
ADMIN = UserInfo("admin", "", (MASTERS, AUTHENTICATED))
JSON = {"Content-Type": "application/json", "Accept": "application/json"}
STRATEGIC = {**JSON, "Content-Type": "application/strategic-merge-patch+json"}


def rows() -> Iterator[Row]:
    created, patched, deleted = asyncio.run(_measure())
    yield Row("create a pod, without HTTP", created, "us", 500, "memory store")
    yield Row("patch a pod's status, without HTTP", patched, "us", 600, "memory store")
    yield Row("delete a pod, without HTTP", deleted, "us", 300, "memory store")


async def _measure() -> tuple[float, float, float]:
    async with writing_pipeline() as pipeline:
        names = [f"p{i:06d}" for i in range(COUNT)]
        status = msgspec.json.encode({"status": {"phase": "Running", "conditions": [condition("Ready", "True")]}})
        await pipeline.serve_as(make_call("POST", PODS, _new_pod("warm"), JSON))
        created = await cpu_us(pipeline, [make_call("POST", PODS, _new_pod(name), JSON) for name in names])
        patches = [make_call("PATCH", f"{PODS}/{name}/status", status, STRATEGIC) for name in names]
        patched = await cpu_us(pipeline, patches)
        deletions = [make_call("DELETE", f"{PODS}/{name}", b"", JSON, "gracePeriodSeconds=0") for name in names]
        return created, patched, await cpu_us(pipeline, deletions)


async def cpu_us(pipeline: Pipeline, calls: list[Call]) -> float:
    start = time.process_time()
    for call in calls:
        await pipeline.serve_as(call)
    return (time.process_time() - start) / len(calls) * 1e6


def make_call(method: str, path: str, body: bytes, headers: dict[str, str], query: str = "") -> Call:
    return Call(method=method, path=path, query=Query(query), headers=headers, body=body, user=ADMIN)


def _new_pod(name: str) -> bytes:
    """As a client sends it: a name, labels, and containers without defaults."""
    container = {key: value for key, value in pod()["spec"]["containers"][0].items() if key in _SENT}
    metadata = {"name": name, "labels": {"app": "bench", "shard": name[-1]}}
    return msgspec.json.encode({"metadata": metadata, "spec": {"containers": [container]}})


_SENT = ("name", "image", "command", "env", "ports", "resources", "readinessProbe")


class _Nobody:
    async def authenticate(self, call: Call) -> UserInfo:
        raise NotImplementedError


@asynccontextmanager
async def writing_pipeline() -> AsyncIterator[Pipeline]:
    tasks: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group, MemoryBackend(clock=RealClock()) as backend:

        def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(group.create_task(work))
            return tasks[-1]

        scheme = builtin_scheme()
        registry = Registry(scheme=scheme, backend=backend, clock=RealClock(), start_task=start)
        endpoints = ApiEndpoints(registry=registry, admission=AdmissionChain([]))
        yield Pipeline(
            scheme=scheme,
            authenticator=_Nobody(),
            authorizer=UnionAuthorizer(PrivilegedGroupAuthorizer()),
            endpoints=endpoints,
            nonresource_handlers={},
        )
        for task in tasks:
            task.cancel()
