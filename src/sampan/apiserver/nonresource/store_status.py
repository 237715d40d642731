"""/debug/store-status: which store the API server uses, how large it is, and which resources it has most of."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from sampan.apiserver.request.call import Call
from sampan.apiserver.response.responses import ApiResponse, ValueResponse
from sampan.machinery import errors
from sampan.storage.backend import StorageError

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry

PATH = "/debug/store-status"
_LARGEST = 5


class StoreStatusHandler:
    def __init__(self, registry: Registry) -> None:
        self._backend, self._registry = registry.backend, registry

    async def handle(self, call: Call) -> ApiResponse:
        if call.method != "GET":
            raise errors.generic(405)
        try:
            size, revision = await self._backend.size(), await self._backend.current_revision()
        except StorageError as error:
            raise errors.service_unavailable(f"the store cannot be read: {error}") from None
        return ValueResponse(
            {
                "kind": self._backend.kind,
                "sizeBytes": size,
                "revision": revision,
                "compactedRevision": self._backend.compacted_revision,
                "writeFailure": self._backend.write_failure,
                **self._contents(),
            }
        )

    def _contents(self) -> dict[str, Any]:
        """Return what the watch caches hold. Resources that nobody has read yet have none."""
        stats = [(store.resource.qualified, store.cacher.stats()) for store in self._registry.stores()]
        largest = heapq.nlargest(_LARGEST, stats, key=lambda entry: entry[1].item_bytes)
        return {
            "objects": sum(entry.items for _, entry in stats),
            "objectBytes": sum(entry.item_bytes for _, entry in stats),
            "watchers": sum(entry.watchers for _, entry in stats),
            "largest": [
                {"resource": resource, "objects": entry.items, "bytes": entry.item_bytes}
                for resource, entry in largest
                if entry.items
            ],
        }
