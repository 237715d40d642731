"""Fairness over HTTP: the default objects, the headers of answers, and a level that is full."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp

from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.flowcontrol import FlowControlController
from sampan.apiserver.server import ApiServer
from sampan.machinery.clock import RealClock
from sampan.storage.memory import MemoryBackend
from tests.eventually import eventually

ROOT = "/apis/flowcontrol.apiserver.k8s.io/v1"
Get = Callable[..., Coroutine[Any, Any, tuple[int, Any, Any]]]


def play(scene: Callable[[ApiServer, Get], Awaitable[None]]) -> None:
    config = ServerConfig(secure_port=0, any_insecure_port=True)

    async def work() -> None:
        clock = RealClock()
        async with (
            MemoryBackend(clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
            aiohttp.ClientSession(f"http://127.0.0.1:{server.insecure_port}") as session,
        ):

            async def get(path: str, method: str = "GET", json: Any = None, **headers: str) -> tuple[int, Any, Any]:
                async with session.request(method, path, json=json, headers=headers) as reply:
                    return reply.status, reply.headers, await reply.json()

            await scene(server, get)

    asyncio.run(asyncio.wait_for(work(), 60))


AS_MAY = {"Impersonate-User": "may"}


def test_default_objects_and_headers() -> None:
    async def scene(server: ApiServer, get: Get) -> None:
        _, _, schemas = await get(f"{ROOT}/flowschemas")
        _, _, levels = await get(f"{ROOT}/prioritylevelconfigurations")
        assert (len(schemas["items"]), len(levels["items"])) == (11, 8)

        async def has_status() -> bool:
            _, _, schema = await get(f"{ROOT}/flowschemas/system-nodes")
            return any(condition["reason"] == "Found" for condition in schema["status"].get("conditions", []))

        await eventually(has_status)
        uids = {entry["metadata"]["name"]: entry["metadata"]["uid"] for entry in schemas["items"]}
        level_uids = {entry["metadata"]["name"]: entry["metadata"]["uid"] for entry in levels["items"]}
        _, headers, _ = await get(ROOT)
        assert headers["X-Kubernetes-PF-FlowSchema-UID"] == uids["exempt"]
        _, headers, _ = await get(ROOT, **AS_MAY)
        assert headers["X-Kubernetes-PF-FlowSchema-UID"] == uids["global-default"]
        assert headers["X-Kubernetes-PF-PriorityLevel-UID"] == level_uids["global-default"]

    play(scene)


def test_a_full_level_does_not_delay_others() -> None:
    """Others are served while one level is full; who waits there is served when a seat is free."""

    async def scene(server: ApiServer, get: Get) -> None:
        async def shares(count: int) -> None:
            path = f"{ROOT}/prioritylevelconfigurations/global-default"
            _, _, level = await get(path)
            queuing = {"queues": 1, "handSize": 1, "queueLengthLimit": 1}
            limited = {"nominalConcurrencyShares": count, "limitResponse": {"type": "Queue", "queuing": queuing}}
            code, _, _ = await get(path, "PUT", {**level, "spec": {"type": "Limited", "limited": limited}})
            assert code == 200

        await shares(0)
        levels = server.fairness.levels
        await eventually(
            lambda: asyncio.sleep(0, "global-default" in levels and levels["global-default"].limits.seats == 0)
        )
        level = levels["global-default"]
        waiting = asyncio.create_task(get(ROOT, **AS_MAY))
        await eventually(lambda: level.waiting == 1)
        code, headers, body = await get(ROOT, **AS_MAY)
        assert (code, headers["Retry-After"], body["reason"]) == (429, "1", "TooManyRequests")
        assert headers["X-Kubernetes-PF-PriorityLevel-UID"]
        assert (await get(ROOT))[0] == 200
        await shares(1)
        assert (await waiting)[0] == 200
        assert (level.seats_in_use, level.waiting) == (0, 0)

    play(scene)


def test_schema_of_a_missing_level() -> None:
    async def scene(server: ApiServer, get: Get) -> None:
        spec = {"priorityLevelConfiguration": {"name": "later"}, "matchingPrecedence": 50}
        code, _, _ = await get(f"{ROOT}/flowschemas", "POST", {"metadata": {"name": "mine"}, "spec": spec})
        assert code == 201

        async def dangles() -> bool:
            _, _, schema = await get(f"{ROOT}/flowschemas/mine")
            return [condition["status"] for condition in schema["status"].get("conditions", [])] == ["True"]

        await eventually(dangles)

    play(scene)


def test_default_objects_come_back() -> None:
    async def scene(server: ApiServer, get: Get) -> None:
        feed = FlowControlController(fairness=server.fairness, pipeline=server.pipeline)
        assert not feed.has_outdated_defaults()
        await get(f"{ROOT}/flowschemas/catch-all", "DELETE")
        assert feed.has_outdated_defaults()
        await feed.ensure_defaults()
        code, _, _ = await get(f"{ROOT}/flowschemas/catch-all")
        assert (code, feed.has_outdated_defaults()) == (200, False)

    play(scene)


def test_metrics_and_wide_lists() -> None:
    async def scene(server: ApiServer, get: Get) -> None:
        for number in range(150):
            body = {"metadata": {"name": f"map-{number}"}}
            await get("/api/v1/namespaces/default/configmaps", "POST", body)
        widths = []
        narrow = server.fairness.width

        def noted(call: Any) -> int:
            widths.append(narrow(call))
            return widths[-1]

        server.fairness.width = noted
        await get("/api/v1/configmaps", Accept="application/json", **AS_MAY)
        await get("/api/v1/configmaps?limit=10", **AS_MAY)
        await get("/api/v1/namespaces/default/configmaps/map-1", **AS_MAY)
        assert widths == [2, 1, 1]
        text = server.metrics.text()
        assert 'apiserver_flowcontrol_dispatched_requests_total{priority_level="global-default"} 3' in text
        assert 'apiserver_flowcontrol_current_executing_seats{priority_level="global-default"} 0' in text

    play(scene)
