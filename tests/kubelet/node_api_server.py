"""API servers in memory with node n, for tests of parts of its kubelet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from sampan.api.types.core_v1 import Node, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cluster.cluster_config import StoreConfig
from sampan.storage.memory import MemoryBackend, MemoryContent
from sampan.testing import Cluster

_COMPONENTS = ("apiserver",)


@asynccontextmanager
async def node_api_server(**options: Any) -> AsyncIterator[Cluster]:
    """Run an API server that has node n and the default service account. Without options, it starts with a copy of the
    content of another server: to create the system objects is most of the work of a start.
    """
    if not options:
        async with Cluster(components=_COMPONENTS, store=StoreConfig(memory=_initial_content())) as cluster:
            yield cluster
        return
    async with Cluster(components=_COMPONENTS, **options) as cluster:
        await _create_node(cluster)
        yield cluster


@cache
def _initial_content() -> MemoryContent:
    async def content() -> MemoryContent:
        await _create_node(cluster)
        backend = cluster.assembly.backend
        assert isinstance(backend, MemoryBackend)
        return backend.content()

    with Cluster(components=_COMPONENTS) as cluster:
        return cluster.run(content())


async def _create_node(cluster: Cluster) -> None:
    await cluster.client.for_kind(Node).create(Node(metadata=ObjectMeta(name="n")))
    account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
    await cluster.client.for_kind(ServiceAccount).create(account)
