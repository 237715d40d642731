"""Health checks, version, the list of paths, and unknown paths."""

import asyncio
from typing import Any

import pytest

from sampan.apiserver.nonresource.health import HealthCheck, HealthHandler, StorageReadiness
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.response.responses import RawResponse
from sampan.machinery.clock import RealClock
from sampan.storage.backend import StorePage
from sampan.storage.memory import MemoryBackend
from tests.api_server import running_api_server
from tests.apiserver.in_process_server import in_process_client, run


async def _fails() -> None:
    raise RuntimeError("a secret reason")


async def _passes() -> None:
    pass


def _handle(health: HealthHandler, target: str) -> RawResponse:
    path, _, query = target.partition("?")
    return run(health.handle(Call(method="GET", path=path, query=Query(query), headers={})))


def _text(health: HealthHandler, target: str) -> tuple[int, str]:
    response = _handle(health, target)
    return response.code, response.body.decode()


HEALTHY = HealthHandler(
    checks=[HealthCheck("etcd", _passes)], ready_checks=[HealthCheck("poststarthook/bootstrap", _passes)]
)
UNHEALTHY = HealthHandler(checks=[HealthCheck("etcd", _fails)])


@pytest.mark.parametrize(
    ("target", "code", "text"),
    [
        ("/healthz", 200, "ok"),
        ("/livez?exclude=etcd", 200, "ok"),
        ("/readyz/poststarthook/bootstrap", 200, "ok"),
        ("/livez/poststarthook/bootstrap", 404, "404 page not found\n"),
        ("/livez/ping?verbose", 200, "ok"),
        ("/livez/", 404, "404 page not found\n"),
        ("/livez?verbose", 200, "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n"),
        ("/livez?verbose&exclude=log", 200, "[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\nlivez check passed\n"),
        (
            "/livez?verbose&exclude=y&exclude=x",
            200,
            "[+]ping ok\n[+]log ok\n[+]etcd ok\n"
            'warn: some health checks cannot be excluded: no matches for "x", "y"\nlivez check passed\n',
        ),
    ],
)
def test_responses_of_passing_checks(target: str, code: int, text: str) -> None:
    assert _text(HEALTHY, target) == (code, text)


def test_failed_check_is_summarized_without_its_reason() -> None:
    message = "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"
    assert _text(UNHEALTHY, "/readyz") == (500, message)
    assert _text(UNHEALTHY, "/readyz?exclude=etcd") == (200, "ok")
    assert _text(UNHEALTHY, "/readyz/etcd") == (500, "internal server error: a secret reason\n")


def test_health_version_and_path_list_of_a_whole_server() -> None:
    async def check() -> None:
        async with in_process_client() as client:
            for method in ("GET", "POST"):
                assert (await client.send(method, "/readyz?verbose")).body.startswith(
                    b"[+]ping ok\n[+]log ok\n[+]etcd ok\n"
                )
            version = await client.get("/version")
            assert (version.json["major"], version.json["minor"], version.json["gitVersion"]) == ("1", "36", "v1.36.4")
            assert (await client.send("DELETE", "/version")).code == 405
            paths = (await client.get("/")).json["paths"]
            assert paths == sorted(paths)
            assert {"/api/v1", "/apis/apps/v1", "/livez/ping", "/openapi/v3"} <= set(paths)
            for path in ("/nothing", "/version/more", "/openapi", "/metrics/more", "//"):
                assert (await client.get(path)).body == b"404 page not found\n"

    run(check())


POD = b"""{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default"}}"""


class BlockedBackend(MemoryBackend):
    """A backend in which pods cannot be read until `may_read` is set."""

    def __init__(self) -> None:
        super().__init__(clock=RealClock())
        self.may_read = asyncio.Event()

    async def range(self, prefix: str, *, limit: int = 0, **rest: Any) -> StorePage:
        if prefix == "/registry/pods/" and limit != 1:
            await self.may_read.wait()
        return await super().range(prefix, limit=limit, **rest)


async def test_server_is_not_ready_before_watch_caches_of_stored_objects_are_filled() -> None:
    async with running_api_server() as server:
        backend = BlockedBackend()
        async with backend:
            await backend.put("/registry/pods/default/a", POD)
            await backend.put("/registry/events/default/a", POD)
            registry = server.registry
            registry.backend = backend
            readiness = StorageReadiness(registry=registry)
            before = len(registry.stores())
            task = asyncio.create_task(readiness.run())
            probe = readiness.check().probe
            while len(registry.stores()) == before:
                with pytest.raises(RuntimeError, match="is not filled yet"):
                    await probe()
                await asyncio.sleep(0)
            assert [store.cacher.shape.plural for store in registry.stores()][before:] == ["pods"]
            with pytest.raises(RuntimeError, match="the watch cache of pods is not filled yet"):
                await _probe_after_several_turns(probe)
            backend.may_read.set()
            await task
            await probe()


async def _probe_after_several_turns(probe: Any) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    await probe()
