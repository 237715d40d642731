"""The APIServices of the group versions that this server serves itself.

With them, a list of APIServices contains all served group versions. The APIServices of built-in groups are created when
the server starts. Those of custom resources are created and deleted with the first and the last custom resource of a
group version.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.request.negotiation import JSON
from sampan.machinery import errors
from sampan.storage.backend import StorageError
from sampan.storage.cacher import CacheError

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline

log = logging.getLogger(__name__)

AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_MANAGED_ON_START, _MANAGED_CONTINUOUSLY = "onstart", "true"
_GROUP, _VERSION, _KIND = "apiregistration.k8s.io", "v1", "APIService"
_PATH = f"/apis/{_GROUP}/{_VERSION}/apiservices"
_UNREGISTERED_GROUPS = frozenset({_GROUP, "metrics.k8s.io"})
"""Groups for which no APIService is created: the group of APIServices itself, and the metrics API, which another server
may register."""
_CORE_PRIORITY = 18000
_RETRY_S = 1.0


class LocalRegistrations:
    def __init__(self, *, pipeline: Pipeline) -> None:
        self._pipeline, self._registry = pipeline, pipeline.endpoints.registry
        self._scheme = self._registry.scheme
        self._changed = asyncio.Event()
        self.completed = asyncio.Event()
        """Set once every group version that is served at the start has its APIService."""

    async def run(self) -> None:
        """Create missing and delete obsolete APIServices until cancelled."""
        store = self._registry.open_store_of(_GROUP, _VERSION, _KIND)
        self._changed.set()
        with self._scheme.on_change(self._changed.set):
            is_first = True
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await store.cacher.wait_ready()
                    existing = {item.name: item.object(store.codec.decode) for item in store.cacher.peek_all()}
                    await self._sync(existing, is_first=is_first)
                    is_first = False
                    self.completed.set()
                except (errors.ApiError, CacheError, StorageError) as error:
                    log.warning("cannot register the served API groups, retrying: %s", error)
                    await asyncio.sleep(_RETRY_S)
                    self._changed.set()

    async def _sync(self, existing: dict[str, Any], *, is_first: bool) -> None:
        desired = self._build_api_services()
        missing = [
            value
            for name, value in desired.items()
            if name not in existing and (is_first or value["metadata"]["labels"][AUTOMANAGED] == _MANAGED_CONTINUOUSLY)
        ]
        await asyncio.gather(*map(self._create, missing))
        for name, service in existing.items():
            is_custom = service.metadata.labels.get(AUTOMANAGED) == _MANAGED_CONTINUOUSLY
            if is_custom and service.spec.service is None and name not in desired:
                await self._delete(name)

    def _build_api_services(self) -> dict[str, dict[str, Any]]:
        scheme = self._scheme
        custom = {(resource.group, resource.version) for resource in scheme if resource.is_custom}
        desired = {}
        for group in scheme.groups():
            for version in scheme.versions(group) if group not in _UNREGISTERED_GROUPS else ():
                name = f"{version}.{group}"
                priority = scheme.group_priority(group) if group else _CORE_PRIORITY
                desired[name] = {
                    "metadata": {
                        "name": name,
                        "labels": {
                            AUTOMANAGED: _MANAGED_CONTINUOUSLY if (group, version) in custom else _MANAGED_ON_START
                        },
                    },
                    "spec": {
                        "group": group,
                        "version": version,
                        "groupPriorityMinimum": priority,
                        "versionPriority": scheme.version_priority(group, version),
                    },
                }
        return desired

    async def _create(self, value: dict[str, Any]) -> None:
        try:
            await self._send("POST", _PATH, msgspec.json.encode(value))
        except errors.AlreadyExists:
            return

    async def _delete(self, name: str) -> None:
        try:
            await self._send("DELETE", f"{_PATH}/{name}")
        except errors.NotFound:
            return

    async def _send(self, method: str, path: str, body: bytes = b"") -> None:
        headers = {"Content-Type": JSON, "User-Agent": "kube-aggregator"}
        call = Call(method=method, path=path, query=Query(""), headers=headers, body=body, user=SYSTEM)
        await self._pipeline.serve_as(call)
