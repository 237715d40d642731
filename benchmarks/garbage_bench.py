"""The garbage collector: the memory of its graph, and the CPU time of events and of deletions."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from benchmarks import Row
from benchmarks.processes import resident_mb
from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.controllers.garbage.graph import DependencyGraph
from sampan.controllers.garbage.ownership import OWNERSHIP
from sampan.machinery.client import Client, DeleteParameters, PatchType, Selection
from sampan.machinery.object_key import NamespacedName
from sampan.testing import Cluster

OWNED, PER_OWNER, WRITES = 100_000, 10, 2000
_HERE = Selection(namespace="default")
PODS = Resource(group="", version="v1", kind="Pod", plural="pods", singular="pod")
_POD = (
    '{"metadata":{"name":"web-%d-5d8f7c-%05d","namespace":"ns%d","uid":"%s","ownerReferences":[{"apiVersion":"v1",'
    '"kind":"Pod","name":"web-%d-5d8f7c","uid":"00000000-0000-0000-0000-%012d","controller":true}]}}'
)


def _graph_mb() -> float:
    graph = DependencyGraph(lambda node: None)
    graph.set_kinds({("v1", "Pod"): PODS})
    nodes, before = graph.nodes(PODS), resident_mb()
    for at in range(OWNED):
        owner = at // PER_OWNER
        obj = OWNERSHIP.decode((_POD % (owner, at, owner % 100, uuid.uuid4(), owner, owner)).encode())
        graph.put(nodes, NamespacedName(obj.metadata.namespace, obj.metadata.name), obj)
    return resident_mb() - before


@asynccontextmanager
async def _cluster(*controllers: str) -> AsyncIterator[Client]:
    async with Cluster(components=("apiserver", "controllers"), controllers=controllers) as cluster:
        yield cluster.client


async def _patched_us(*controllers: str) -> float:
    """Return the CPU time of a patch of an object without owners."""
    async with _cluster(*controllers) as client:
        maps = client.for_kind(ConfigMap)
        await maps.create(ConfigMap(metadata=ObjectMeta(name="m", namespace="default")))
        await asyncio.sleep(1)  # The work of the start is not measured.
        began = time.process_time()
        for at in range(WRITES):
            await maps.patch("m", {"data": {"x": str(at)}}, "default", type=PatchType.MERGE)
        return (time.process_time() - began) / WRITES * 1e6


async def _collected_us() -> float:
    """Return the CPU time of collecting one dependent, with that of the API server."""
    async with _cluster("garbage-collector-controller") as client:
        maps = client.for_kind(ConfigMap)
        owner = await maps.create(ConfigMap(metadata=ObjectMeta(name="owner", namespace="default")))
        ref = OwnerReference(apiVersion="v1", kind="ConfigMap", name="owner", uid=owner.metadata.uid)
        for at in range(WRITES):
            meta = ObjectMeta(name=f"m{at}", namespace="default", ownerReferences=[ref])
            await maps.create(ConfigMap(metadata=meta))
        began = time.process_time()
        await maps.delete("owner", "default", options=DeleteParameters(propagation="Background"))
        while (await maps.list(_HERE, limit=1)).items:  # noqa: ASYNC110 - following each deletion would cost CPU time
            await asyncio.sleep(0.05)
        return (time.process_time() - began) / WRITES * 1e6


def rows() -> Iterator[Row]:
    note = f"{OWNED:,} objects of {OWNED // PER_OWNER:,} owners; other objects are not in the graph"
    yield Row("graph of owned objects", _graph_mb(), "MB", 80, note)
    without = asyncio.run(_patched_us())
    watched = asyncio.run(_patched_us("garbage-collector-controller"))
    yield Row("an event of an object without owners", max(0.0, watched - without), "us", 40, "on top of the write")
    yield Row("collecting a dependent", asyncio.run(_collected_us()), "us", 1000, "its reading and deletion included")
