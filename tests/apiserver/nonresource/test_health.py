"""Health checks, version, the list of paths, and unknown paths."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.nonresource.health import HealthHandler, StorageReadiness
from sampan.apiserver.nonresource.start_checks import StartChecks, StartStep
from sampan.apiserver.request.call import AUTHENTICATED, MASTERS, Call, Query, UserInfo
from sampan.apiserver.response.responses import RawResponse
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.machinery.telemetry.health import LOG, PING, HealthCheck, HealthMetrics, HealthPath
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


ETCD = HealthCheck("etcd", _passes)
HEALTHY = HealthHandler(
    live=[PING, LOG, ETCD], ready=[PING, LOG, ETCD, HealthCheck("poststarthook/bootstrap", _passes)]
)
UNHEALTHY = HealthHandler(ready=[PING, LOG, HealthCheck("etcd", _fails)])


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
            assert (version.json["major"], version.json["minor"], version.json["gitVersion"]) == ("1", "37", "v1.37.1")
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


LIVE_CHECKS = [
    "ping",
    "log",
    "loopback-serving-certificate",
    "etcd",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
]
"""The checks of /livez of kube-apiserver v1.36.4, in its order."""
READY_CHECKS = ["ping", "log", "etcd", "etcd-readiness", "informer-sync", *LIVE_CHECKS[4:], "shutdown"]


async def _read(server: ApiServer, target: str, method: str = "GET") -> RawResponse:
    path, _, query = target.partition("?")
    user = UserInfo("admin", groups=(MASTERS, AUTHENTICATED))
    response = await server.pipeline.serve_as(Call(method=method, path=path, query=Query(query), headers={}, user=user))
    assert isinstance(response, RawResponse)
    return response


@asynccontextmanager
async def _running_server(*, has_fairness: bool = True) -> AsyncIterator[ApiServer]:
    clock = RealClock()
    async with (
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=ServerConfig(has_fairness=has_fairness), backend=backend, clock=clock) as server,
    ):
        yield server


async def test_checks_have_the_names_and_the_order_of_kube_apiserver() -> None:
    async with _running_server() as server:
        for path, checks in (("healthz", LIVE_CHECKS), ("livez", LIVE_CHECKS), ("readyz", READY_CHECKS)):
            lines = [f"[+]{check} ok\n" for check in checks]
            assert (await _read(server, f"/{path}?verbose")).body.decode() == "".join(lines) + f"{path} check passed\n"
            for check in checks:
                assert (await _read(server, f"/{path}/{check}")).body == b"ok"
                assert (
                    f"[+]{check} excluded: ok"
                    in (await _read(server, f"/{path}?verbose&exclude={check}")).body.decode()
                )
        index = json.loads((await _read(server, "/")).body)["paths"]
        assert {"/metrics/slis", "/healthz/autoregister-completion", "/readyz/etcd-readiness"} <= set(index)


async def test_server_without_priority_and_fairness_has_another_filter() -> None:
    async with _running_server(has_fairness=False) as server:
        text = (await _read(server, "/livez?verbose")).body.decode()
        assert "[+]poststarthook/max-in-flight-filter ok" in text
        assert "priority-and-fairness-filter" not in text
        assert "priority-and-fairness-config-consumer" not in text


async def test_each_hook_fails_until_its_step_is_finished() -> None:
    checks = StartChecks(has_fairness=True)
    hooks = checks.hooks(HealthCheck("poststarthook/storage-readiness", _fails))
    health = HealthHandler(ready=hooks)

    async def list_failed() -> set[str]:
        response = await health.handle(Call(method="GET", path="/readyz", query=Query(""), headers={}))
        return {line[3:].partition(" ")[0] for line in response.body.decode().splitlines() if line.startswith("[-]")}

    assert await list_failed() == {hook.name for hook in hooks}
    checks.finish(StartStep.ROLES)
    assert await list_failed() == {hook.name for hook in hooks} - {"poststarthook/rbac/bootstrap-roles"}
    checks.finish(*StartStep)
    assert await list_failed() == {"poststarthook/storage-readiness"}


async def test_results_of_checks_are_metrics() -> None:
    async with _running_server() as server:
        await _read(server, "/livez")
        await _read(server, "/livez?exclude=log")
        await _read(server, "/livez/ping")
        lines = (await _read(server, "/metrics/slis")).body.decode().splitlines()
        assert 'kubernetes_healthcheck{name="etcd",type="livez"} 1' in lines
        assert 'kubernetes_healthchecks_total{name="ping",type="livez",status="success"} 2' in lines
        assert 'kubernetes_healthchecks_total{name="log",type="livez",status="success"} 1' in lines
        assert any(line.startswith("process_start_time_seconds ") for line in lines)
        assert (await _read(server, "/metrics/slis", "DELETE")).body == b"metrics reset\n"
        assert b"kubernetes_healthcheck" not in (await _read(server, "/metrics/slis")).body


def test_metrics_tell_failed_checks_and_lists_without_required_failures_pass() -> None:
    metrics = HealthMetrics()
    optional = HealthCheck("spare", _fails, is_required=False)
    path = HealthPath("readyz", lambda: (PING, optional), metrics=metrics)
    response = run(path.run(is_verbose=True))
    assert response is not None
    assert (response.code, response.text) == (
        200,
        "[+]ping ok\n[-]spare failed: reason withheld\nreadyz check passed\n",
    )
    shown = run(path.run(is_verbose=True, shows_reasons=True))
    assert shown is not None
    assert "[-]spare failed: a secret reason\n" in shown.text
    assert 'kubernetes_healthcheck{name="spare",type="readyz"} 0\n' in metrics.text()
    assert 'kubernetes_healthchecks_total{name="spare",type="readyz",status="error"} 2\n' in metrics.text()
