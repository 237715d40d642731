"""Reconciles flow schemas and priority levels: creates the defaults, follows changes and reports dangling schemas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api import times
from sampan.apiserver.call import AUTHENTICATED, MASTERS, Call, Query, User
from sampan.apiserver.fairness.borrowing import PERIOD_S, SAMPLES
from sampan.apiserver.fairness.defaults import AUTO_UPDATE, LEVELS, SCHEMAS
from sampan.apiserver.fairness.fairness import Fairness
from sampan.apiserver.negotiation import JSON
from sampan.apiserver.patching import MERGE_PATCH
from sampan.machinery import errors
from sampan.storage.backend import StorageError
from sampan.storage.cacher import CacheError, WatchQuery

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline

log = logging.getLogger(__name__)

GROUP = "flowcontrol.apiserver.k8s.io"
_ROOT = f"/apis/{GROUP}/v1"
_SCHEMAS, _LEVELS = "flowschemas", "prioritylevelconfigurations"
_KINDS = ("FlowSchema", "PriorityLevelConfiguration")
_USER = User("system:apiserver", groups=(MASTERS, AUTHENTICATED))
_RETRY_S = 0.2
_RESTORE_S = 60.0


class FairnessFeed:
    def __init__(self, *, fairness: Fairness, pipeline: Pipeline) -> None:
        self._fairness, self._pipeline = fairness, pipeline
        self._changed = asyncio.Event()

    async def ensure_defaults(self) -> None:
        """Create missing default objects, and update those with the annotation autoupdate-spec=true."""
        await asyncio.gather(*(self._ensure(_LEVELS, value) for value in LEVELS))
        await asyncio.gather(*(self._ensure(_SCHEMAS, value) for value in SCHEMAS))

    async def run(self) -> None:
        """Follow the stored objects until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in _KINDS:
                group.create_task(self._follow(kind))
            group.create_task(self._look())
            group.create_task(self._restore())
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._take()

    async def _look(self) -> None:
        """Sample the levels. Borrowing depends on the real load, so it uses the time of the event loop and not the
        server's clock."""
        while True:
            await asyncio.sleep(PERIOD_S / SAMPLES)
            self._fairness.look()

    async def _restore(self) -> None:
        """Restore default objects that were deleted or changed."""
        while True:
            await asyncio.sleep(_RESTORE_S)
            try:
                if self.differs():
                    await self.ensure_defaults()
            except (errors.ApiError, StorageError) as error:
                log.warning("cannot write the mandatory flow control configuration: %s", error)

    def differs(self) -> bool:
        """Whether a default object is missing, or differs and is still updated automatically."""
        for kind, desired in zip(_KINDS, (SCHEMAS, LEVELS), strict=True):
            stored = {obj.metadata.name: obj for obj in self._stored(kind)}
            if any(_is_off(stored.get(value["metadata"]["name"]), value) for value in desired):
                return True
        return False

    async def _follow(self, kind: str) -> None:
        store = self._pipeline.endpoints.registry.store_of(GROUP, "v1", kind)
        while True:
            try:
                async with store.cacher.watch(WatchQuery()) as watcher:
                    async for _ in watcher:
                        self._changed.set()
            except (CacheError, StorageError) as error:
                log.warning("flow control: watch of %s failed, listing again: %s", kind, error)
            await asyncio.sleep(_RETRY_S)

    async def _take(self) -> None:
        schemas, levels = (self._stored(kind) for kind in _KINDS)
        self._fairness.configure(schemas, levels)
        names = {level.metadata.name for level in levels}
        for schema in schemas:
            try:
                await self._tell(schema, names)
            except (errors.ApiError, StorageError) as error:
                log.warning("cannot update the status of FlowSchema %s: %s", schema.metadata.name, error)

    def _stored(self, kind: str) -> Sequence[Any]:
        cacher = self._pipeline.endpoints.registry.store_of(GROUP, "v1", kind).cacher
        return [cacher.object(item) for item in cacher.peek_all()]

    async def _tell(self, schema: Any, levels: set[str]) -> None:
        """Update the Dangling condition of a schema, which is true if its priority level does not exist."""
        level = schema.spec.priorityLevelConfiguration.name
        status, reason, tail = ("False", "Found", "it exists") if level in levels else _DANGLING
        link = "and" if level in levels else "but"
        present = next((existing for existing in schema.status.conditions if existing.type == "Dangling"), None)
        message = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {link} {tail}'
        if present is not None and (present.status, present.message) == (status, message):
            return
        now = times.format_time(self._pipeline.endpoints.registry.clock.now())
        if present is not None and present.status == status:
            now = present.lastTransitionTime or now
        condition = {"type": "Dangling", "status": status, "lastTransitionTime": now, "reason": reason}
        others = [msgspec.to_builtins(existing) for existing in schema.status.conditions if existing.type != "Dangling"]
        value = {"status": {"conditions": [*others, {**condition, "message": message}]}}
        await self._send("PATCH", f"{_ROOT}/{_SCHEMAS}/{schema.metadata.name}/status", value, MERGE_PATCH)

    async def _ensure(self, plural: str, value: dict[str, Any]) -> None:
        path = f"{_ROOT}/{plural}"
        try:
            await self._send("POST", path, value)
        except errors.AlreadyExists:
            await self._renew(f"{path}/{value['metadata']['name']}", value)

    async def _renew(self, path: str, value: dict[str, Any]) -> None:
        answer = await self._send("GET", path)
        current = msgspec.json.decode(answer.raw)
        if current["metadata"].get("annotations", {}).get(AUTO_UPDATE) == "true" and current["spec"] != value["spec"]:
            await self._send("PUT", path, {**current, "spec": value["spec"]})

    async def _send(self, method: str, path: str, value: Any = None, media: str = JSON) -> Any:
        body = msgspec.json.encode(value) if value is not None else b""
        headers = {"Content-Type": media, "User-Agent": "sampan-apiserver"}
        call = Call(method=method, path=path, query=Query(""), headers=headers, body=body, user=_USER)
        return await self._pipeline.serve_as(call)


def _is_off(found: Any | None, value: dict[str, Any]) -> bool:
    if found is None:
        return True
    return bool(
        found.metadata.annotations.get(AUTO_UPDATE) == "true" and msgspec.to_builtins(found.spec) != value["spec"]
    )


_DANGLING = ("True", "NotFound", "there is no such object")
