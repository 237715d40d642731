"""100 large CustomResourceDefinitions, 20 MB of schema in total, created one after the other as Helm does: the time
until all are established, and the memory and CPU time of the server."""

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec

from benchmarks import Row
from benchmarks.processes import cpu_s, resident_mb
from benchmarks.running_cluster import running_cluster

LARGE, SMALL, BYTES = 100, 100, 200_000
GROUP = "bench.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WORDS = (
    *(
        "the",
        "of",
        "a",
        "field",
        "object",
        "that",
        "value",
        "and",
        "is",
        "list",
        "pod",
        "container",
        "name",
        "optional",
    ),
    *("resource", "specifies", "must", "be", "not", "volume", "when", "label", "selector", "namespace", "default"),
    *("may", "set", "key", "reference", "in", "this", "for", "with", "by", "policy", "status", "spec"),
)
JSON = {"Content-Type": "application/json"}
SETTLE_S = 2
Schema = dict[str, Any]


def rows() -> Iterator[Row]:
    with running_cluster() as cluster:
        yield from asyncio.run(_measure(cluster.url, cluster.pid))


async def _measure(url: str, pid: int) -> list[Row]:
    schemas = random.Random(16)
    large = [_definition(f"Large{number}", make_schema(schemas, BYTES)) for number in range(LARGE)]
    small = [_definition(f"Small{number}", make_schema(schemas, 4_000)) for number in range(SMALL)]
    total_mb = sum(map(len, large)) / 1e6
    async with aiohttp.ClientSession(url) as session:
        await _define(session, [_definition("Warm", {"type": "object"})])
        await asyncio.sleep(SETTLE_S)
        before_mb = resident_mb(pid)
        await _define(session, small)
        await asyncio.sleep(SETTLE_S)
        small_mb = resident_mb(pid)
        start, cpu = time.monotonic(), cpu_s(pid)
        await _define(session, large)
        took_s, cpu = time.monotonic() - start, cpu_s(pid) - cpu
        await asyncio.sleep(SETTLE_S)
        large_mb = resident_mb(pid)
        start = time.monotonic()
        for path in ("/openapi/v2", f"/openapi/v3/apis/{GROUP}/v1", "/apis"):
            async with session.get(path) as response:
                assert response.status == 200
                await response.read()
        published_s = time.monotonic() - start
        await asyncio.sleep(SETTLE_S)
        published_mb = resident_mb(pid)
    note = f"{total_mb:.0f} MB of schema"
    return [
        Row("definition of a usual size, resident", (small_mb - before_mb) / SMALL * 1e3, "KB", 150, "4 KB of schema"),
        Row(f"{LARGE} large definitions until all are established", took_s, "s", 10, note),
        Row(f"{LARGE} large definitions, CPU of the server", cpu, "s", 8, note),
        Row(f"{LARGE} large definitions, resident", large_mb - small_mb, "MB", 150, note),
        Row("OpenAPI documents of all definitions", published_s, "s", None, "v2 and v3, first request"),
        Row("resident after that", published_mb - small_mb, "MB", None),
    ]


async def _define(session: aiohttp.ClientSession, definitions: list[bytes]) -> None:
    """Create the definitions one after the other, then wait until all are established."""
    names = set()
    for body in definitions:
        async with session.post(DEFINITIONS, data=body, headers=JSON) as response:
            assert response.status == 201, await response.text()
            names.add((await response.json())["metadata"]["name"])
    for name in names:
        while not await _is_established(session, name):  # noqa: ASYNC110 - as `kubectl wait` does
            await asyncio.sleep(0.02)


async def _is_established(session: aiohttp.ClientSession, name: str) -> bool:
    async with session.get(f"{DEFINITIONS}/{name}") as response:
        conditions = (await response.json())["status"].get("conditions") or []
    return any((condition["type"], condition["status"]) == ("Established", "True") for condition in conditions)


def _definition(kind: str, schema: Schema) -> bytes:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    plural = f"{kind.lower()}s"
    spec = {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]}
    return msgspec.json.encode({"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec})


def make_schema(source: random.Random, size: int) -> Schema:
    """Return a schema of about that many bytes, with the mixture of types of a generated operator API."""
    sections: Schema = {}
    schema: Schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": sections}}}
    length = 0
    while length < size:
        section = _section(source, 3 if size > 10_000 else 1)
        length += len(msgspec.json.encode(section))
        sections[f"section{len(sections)}"] = section
    schema["properties"]["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return schema


def _section(source: random.Random, depth: int) -> Schema:
    description = " ".join(source.choices(WORDS, k=source.randint(5, 30)))
    if not depth:
        return {"description": description, **source.choice(_SCALARS)}
    properties = {f"{source.choice(WORDS)}{number}": _section(source, depth - 1) for number in range(8)}
    value: Schema = {"type": "object", "description": description, "properties": properties}
    match source.randrange(4):
        case 0:
            value["required"] = [next(iter(properties))]
        case 1:
            properties["name"] = {"type": "string", "maxLength": 63}
            value["required"] = ["name"]
            keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
            return {"type": "array", "maxItems": 32, "description": description, "items": value, **keys}
        case 2 if depth == 1:
            properties["first"] = properties["last"] = {"type": "integer", "minimum": 0}
            rule = "!has(self.first) || !has(self.last) || self.first <= self.last"
            value["x-kubernetes-validations"] = [{"rule": rule}]
    return value


_SCALARS: tuple[Schema, ...] = (
    {"type": "string"},
    {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    {"type": "string", "enum": ["Always", "Never", "IfNotPresent"], "default": "Always"},
    {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
    {"type": "boolean"},
    {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "array", "items": {"type": "string"}},
)
