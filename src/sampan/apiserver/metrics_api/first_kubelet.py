"""Waits for the first node that reports a kubelet port: before that no metrics are available."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sampan.api.types.core_v1 import Node
from sampan.storage.backend import StorageError
from sampan.storage.cacher import ADDED, MODIFIED, CacheError, ListQuery, Selection, WatchQuery

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry

log = logging.getLogger(__name__)

_RETRY_S = 1.0


async def first_kubelet(registry: Registry) -> None:
    """Return once there is such a node."""
    nodes = registry.store_of("", "v1", "Node").cacher
    while True:
        try:
            result = await nodes.list(ListQuery(Selection()))
            if _any_listens(nodes.object(item) for item in result.items):
                return
            query = WatchQuery(Selection(), resource_version=str(result.revision))
            async with nodes.watch(query) as watcher:
                async for events in watcher:
                    if _any_listens(nodes.object(event.item) for event in events if event.type in (ADDED, MODIFIED)):
                        return
        except (CacheError, StorageError) as error:
            log.warning("metrics API: watch of nodes failed, listing again: %s", error)
            await asyncio.sleep(_RETRY_S)


def _any_listens(nodes: Iterable[Node]) -> bool:
    return any(node.status.daemonEndpoints.kubeletEndpoint.Port for node in nodes)
