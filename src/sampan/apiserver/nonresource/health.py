"""/healthz, /livez and /readyz: the health of the server, as a whole and for each check.

One of the readiness checks waits for the watch caches, as in kube-apiserver (feature
WatchCacheInitializationPostStartHook). Here a cache is created when its resource is first requested; those of resources
that have objects are created at the start, so that the first lists after /readyz succeeds do not wait. Events are
excluded: there are many of them, they are rarely the first to be requested, and kube-apiserver has no watch cache for
them either. The counterpart is `k8s.io/apiserver/pkg/server/healthz`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from sampan.api.resources.resource import Resource
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.request.call import AUTHENTICATED, Call
from sampan.apiserver.response.responses import RawResponse, path_not_found
from sampan.machinery.telemetry.health import COMPONENT_PREFIX, HealthCheck, HealthMetrics, HealthPath
from sampan.storage.backend import Backend, StorageError

log = logging.getLogger(__name__)

_STORE_TIMEOUT_S = 2.0
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}


def store_check(backend: Backend, name: str = "etcd") -> HealthCheck:
    """Return a check that reads from the storage backend. It is named "etcd", whatever the backend, as operators
    expect."""

    async def probe() -> None:
        async with asyncio.timeout(_STORE_TIMEOUT_S):
            await backend.current_revision()

    return HealthCheck(name, probe)


def writable_store_check(backend: Backend, name: str = "etcd") -> HealthCheck:
    """Return a check that also fails while the storage rejects writes, for lack of space or because the disk is
    read-only."""
    readable = store_check(backend, name)

    async def probe() -> None:
        await readable.probe()
        if reason := backend.write_failure:
            raise RuntimeError(f"writes are refused: {reason}")

    return HealthCheck(name, probe)


class HealthHandler:
    """Serves /healthz, /livez and /readyz, and each of their checks below them."""

    def __init__(
        self,
        *,
        live: Sequence[HealthCheck] = (),
        ready: Sequence[HealthCheck] = (),
        component_failures: Callable[[], Mapping[str, str]] = dict,
        metrics: HealthMetrics | None = None,
    ) -> None:
        """`live` are the checks of /healthz and /livez, `ready` those of /readyz. `component_failures` returns why
        each other component in this process is failed, or an empty string if it is not; /readyz lists them, but the
        server is ready without them, as kube-apiserver does not depend on controllers either."""
        metrics = metrics or HealthMetrics()

        def list_ready() -> Sequence[HealthCheck]:
            return (*ready, *(_component_check(*item) for item in component_failures().items()))

        paths = (
            HealthPath("healthz", lambda: live, metrics=metrics),
            HealthPath("livez", lambda: live, metrics=metrics),
            HealthPath("readyz", list_ready, metrics=metrics),
        )
        self.paths = {path.path: path for path in paths}

    async def handle(self, call: Call) -> RawResponse:
        path, slash, name = call.path[1:].partition("/")
        if slash and not name:
            return path_not_found()
        response = await self.paths[path].run(
            name,
            excluded=set(call.query.get_all("exclude")),
            is_verbose="verbose" in call.query,
            shows_reasons=call.user is not None and AUTHENTICATED in call.user.groups,
        )
        if response is None:
            return path_not_found()
        return RawResponse(response.text.encode(), code=response.code, headers=dict(_NO_SNIFF))


def _component_check(component: str, failure: str) -> HealthCheck:
    async def probe() -> None:
        if failure:
            raise RuntimeError(failure)

    return HealthCheck(f"{COMPONENT_PREFIX}{component}", probe, is_required=False)


_CACHE_SYNC_TIMEOUT_S = 60.0
"""After this time the server is ready in any case, as kube-apiserver is: requests wait for the caches they need."""
_EVENTS = "/registry/events"


class StorageReadiness:
    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry
        self._is_ready = False
        self._waiting_for = "the list of stored resources"

    def check(self) -> HealthCheck:
        return HealthCheck("poststarthook/storage-readiness", self._probe, is_transient=True)

    async def run(self) -> None:
        """Create the caches and wait until they are filled."""
        try:
            async with asyncio.timeout(_CACHE_SYNC_TIMEOUT_S):
                await self._fill()
        except (TimeoutError, StorageError) as error:
            log.warning("the watch cache of %s is not filled: %s", self._waiting_for, error or "timed out")
        self._is_ready = True

    async def _fill(self) -> None:
        stores = [
            self._registry.open_store(resource)
            for resource in self._list_stored_resources()
            if await self._has_objects(resource)
        ]
        for store in stores:
            self._waiting_for = store.cacher.shape.plural
            await store.cacher.wait_filled()

    def _list_stored_resources(self) -> list[Resource]:
        """Return one resource for each storage prefix."""
        resources: dict[str, Resource] = {}
        for resource in self._registry.scheme:
            if resource.storage is not None and not resource.is_custom and resource.storage_prefix != _EVENTS:
                resources.setdefault(resource.storage_prefix, resource)
        return list(resources.values())

    async def _has_objects(self, resource: Resource) -> bool:
        page = await self._registry.backend.range(resource.storage_prefix + "/", limit=1)
        return bool(page.entries)

    async def _probe(self) -> None:
        if not self._is_ready:
            raise RuntimeError(f"the watch cache of {self._waiting_for} is not filled yet")
