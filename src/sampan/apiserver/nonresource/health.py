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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.request.call import Call
from sampan.apiserver.response.responses import RawResponse, path_not_found
from sampan.storage.backend import Backend, StorageError

log = logging.getLogger(__name__)

_STORE_TIMEOUT_S = 2.0
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class HealthCheck:
    name: str
    """A unique name, which may contain slashes (`poststarthook/bootstrap`)."""
    probe: Callable[[], Awaitable[None]]
    """Raises an exception if the check fails."""
    is_transient: bool = False
    """Whether failures during start and shutdown are expected and not logged as warnings."""


async def _always_succeed() -> None:
    """Succeed always: the response itself proves that the server works."""


ALWAYS = (HealthCheck("ping", _always_succeed), HealthCheck("log", _always_succeed))


def store_check(backend: Backend) -> HealthCheck:
    """Return a check that reads from the storage backend. It is named "etcd", whatever the backend, as operators
    expect."""

    async def probe() -> None:
        async with asyncio.timeout(_STORE_TIMEOUT_S):
            await backend.current_revision()

    return HealthCheck("etcd", probe)


def writable_store_check(backend: Backend) -> HealthCheck:
    """Return a check that also fails while the storage rejects writes, for lack of space or because the disk is
    read-only."""
    readable = store_check(backend)

    async def probe() -> None:
        await readable.probe()
        if reason := backend.write_failure:
            raise RuntimeError(f"writes are refused: {reason}")

    return HealthCheck(readable.name, probe)


class HealthHandler:
    def __init__(self, *, checks: Iterable[HealthCheck] = (), ready_checks: Iterable[HealthCheck] = ()) -> None:
        """A readiness check replaces another check with the same name."""
        live = (*ALWAYS, *checks)
        ready = {check.name: check for check in (*live, *ready_checks)}
        self.checks: dict[str, Sequence[HealthCheck]] = {
            "healthz": live,
            "livez": live,
            "readyz": tuple(ready.values()),
        }
        """The checks by path, in the order in which they are reported."""

    async def handle(self, call: Call) -> RawResponse:
        name, slash, single = call.path[1:].partition("/")
        checks = self.checks[name]
        if not slash:
            return await self._run_checks(name, checks, call)
        health_check = next((check for check in checks if check.name == single), None)
        return await _run_check(health_check) if health_check is not None else path_not_found()

    async def _run_checks(self, name: str, checks: Sequence[HealthCheck], call: Call) -> RawResponse:
        left_out = set(call.query.get_all("exclude"))
        results = [(check.name, await _result(check, left_out)) for check in checks]
        lines = [f"[{'-' if failure else '+'}]{check} {text}" for check, (failure, text) in results]
        if unknown := sorted(left_out - {check.name for check in checks}):
            names = ", ".join(gotext.quote(exclusion) for exclusion in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed := [(check, failure) for check, (failure, _) in results if failure]:
            transient = {check.name for check in checks if check.is_transient}
            level = logging.DEBUG if all(check in transient for check, _ in failed) else logging.WARNING
            log.log(level, "%s check failed: %s", name, "; ".join(f"{check}: {failure}" for check, failure in failed))
            return _text("\n".join([*lines, f"{name} check failed", ""]), 500)
        if "verbose" not in call.query:
            return _text("ok")
        return _text("\n".join([*lines, f"{name} check passed", ""]))


async def _result(check: HealthCheck, left_out: set[str]) -> tuple[str, str]:
    """Return the error, empty if there is none, and the reported text. The reason is withheld, because the paths are
    open to everybody."""
    if check.name in left_out:
        return "", "excluded: ok"
    failure = await _failure_of(check)
    return failure, "failed: reason withheld" if failure else "ok"


async def _failure_of(check: HealthCheck) -> str:
    try:
        await check.probe()
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


async def _run_check(check: HealthCheck) -> RawResponse:
    failure = await _failure_of(check)
    return _text(f"internal server error: {failure}\n", 500) if failure else _text("ok")


def _text(text: str, code: int = 200) -> RawResponse:
    return RawResponse(text.encode(), code=code, headers=dict(_NO_SNIFF))


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
