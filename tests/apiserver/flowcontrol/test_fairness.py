"""API priority and fairness over HTTP: default objects, response headers, and full priority levels."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
import pytest

from sampan.api.codec import json as codec
from sampan.api.types.flowcontrol_v1 import FlowSchema
from sampan.apiserver.authz.authorizer import Attributes
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.flowcontrol import FlowControlController
from sampan.apiserver.flowcontrol.fairness import FlowSchemaMatcher
from sampan.apiserver.request.call import UserInfo
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.storage.memory import MemoryBackend
from tests.eventually import eventually

ROOT = "/apis/flowcontrol.apiserver.k8s.io/v1"
Send = Callable[..., Coroutine[Any, Any, tuple[int, Any, Any]]]


def run_with_server(check: Callable[[ApiServer, Send], Awaitable[None]]) -> None:
    config = ServerConfig(secure_port=0, any_insecure_port=True)

    async def work() -> None:
        clock = RealClock()
        async with (
            MemoryBackend(clock=clock) as backend,
            ApiServer(config=config, backend=backend, clock=clock) as server,
            aiohttp.ClientSession(f"http://127.0.0.1:{server.insecure_port}") as session,
        ):

            async def send(path: str, method: str = "GET", json: Any = None, **headers: str) -> tuple[int, Any, Any]:
                async with session.request(method, path, json=json, headers=headers) as reply:
                    return reply.status, reply.headers, await reply.json()

            await check(server, send)

    asyncio.run(asyncio.wait_for(work(), 60))


AS_MAY = {"Impersonate-User": "may"}


def test_response_headers_name_the_default_flow_schema_and_priority_level() -> None:
    async def check(server: ApiServer, send: Send) -> None:
        _, _, schemas = await send(f"{ROOT}/flowschemas")
        _, _, levels = await send(f"{ROOT}/prioritylevelconfigurations")
        assert (len(schemas["items"]), len(levels["items"])) == (11, 8)

        async def has_status() -> bool:
            _, _, schema = await send(f"{ROOT}/flowschemas/system-nodes")
            return any(condition["reason"] == "Found" for condition in schema["status"].get("conditions", []))

        await eventually(has_status)
        uids = {entry["metadata"]["name"]: entry["metadata"]["uid"] for entry in schemas["items"]}
        level_uids = {entry["metadata"]["name"]: entry["metadata"]["uid"] for entry in levels["items"]}
        _, headers, _ = await send(ROOT)
        assert headers["X-Kubernetes-PF-FlowSchema-UID"] == uids["exempt"]
        _, headers, _ = await send(ROOT, **AS_MAY)
        assert headers["X-Kubernetes-PF-FlowSchema-UID"] == uids["global-default"]
        assert headers["X-Kubernetes-PF-PriorityLevel-UID"] == level_uids["global-default"]

    run_with_server(check)


def test_full_priority_level_delays_only_its_own_requests() -> None:
    """Requests of other levels are served while one level is full; a queued request is served when a seat is free."""

    async def check(server: ApiServer, send: Send) -> None:
        async def set_shares(count: int) -> None:
            path = f"{ROOT}/prioritylevelconfigurations/global-default"
            _, _, level = await send(path)
            queuing = {"queues": 1, "handSize": 1, "queueLengthLimit": 1}
            limited = {"nominalConcurrencyShares": count, "limitResponse": {"type": "Queue", "queuing": queuing}}
            code, _, _ = await send(path, "PUT", {**level, "spec": {"type": "Limited", "limited": limited}})
            assert code == 200

        await set_shares(0)
        levels = server.components.fairness.levels
        await eventually(
            lambda: asyncio.sleep(0, "global-default" in levels and levels["global-default"].limits.seats == 0)
        )
        level = levels["global-default"]
        waiting = asyncio.create_task(send(ROOT, **AS_MAY))
        await eventually(lambda: level.waiting == 1)
        code, headers, body = await send(ROOT, **AS_MAY)
        assert (code, headers["Retry-After"], body["reason"]) == (429, "1", "TooManyRequests")
        assert headers["X-Kubernetes-PF-PriorityLevel-UID"]
        assert (await send(ROOT))[0] == 200
        await set_shares(1)
        assert (await waiting)[0] == 200
        assert (level.seats_in_use, level.waiting) == (0, 0)

    run_with_server(check)


def test_flow_schema_of_a_missing_priority_level_is_dangling() -> None:
    async def check(server: ApiServer, send: Send) -> None:
        spec = {"priorityLevelConfiguration": {"name": "later"}, "matchingPrecedence": 50}
        code, _, _ = await send(f"{ROOT}/flowschemas", "POST", {"metadata": {"name": "mine"}, "spec": spec})
        assert code == 201

        async def is_dangling() -> bool:
            _, _, schema = await send(f"{ROOT}/flowschemas/mine")
            return [condition["status"] for condition in schema["status"].get("conditions", [])] == ["True"]

        await eventually(is_dangling)

    run_with_server(check)


def test_deleted_default_flow_schema_is_recreated() -> None:
    async def check(server: ApiServer, send: Send) -> None:
        controller = FlowControlController(fairness=server.components.fairness, pipeline=server.pipeline)
        assert not controller.has_outdated_defaults()
        await send(f"{ROOT}/flowschemas/catch-all", "DELETE")
        assert controller.has_outdated_defaults()
        await controller.ensure_defaults()
        code, _, _ = await send(f"{ROOT}/flowschemas/catch-all")
        assert (code, controller.has_outdated_defaults()) == (200, False)

    run_with_server(check)


def test_large_lists_take_more_seats_and_dispatched_requests_are_counted() -> None:
    async def check(server: ApiServer, send: Send) -> None:
        for number in range(150):
            body = {"metadata": {"name": f"map-{number}"}}
            await send("/api/v1/namespaces/default/configmaps", "POST", body)
        widths = []
        original_width = server.components.fairness.width

        def record_width(call: Any) -> int:
            widths.append(original_width(call))
            return widths[-1]

        server.components.fairness.width = record_width
        await send("/api/v1/configmaps", Accept="application/json", **AS_MAY)
        await send("/api/v1/configmaps?limit=10", **AS_MAY)
        await send("/api/v1/namespaces/default/configmaps/map-1", **AS_MAY)
        assert widths == [2, 1, 1]
        text = server.metrics.text()
        assert 'apiserver_flowcontrol_dispatched_requests_total{priority_level="global-default"} 3' in text
        assert 'apiserver_flowcontrol_current_executing_seats{priority_level="global-default"} 0' in text

    run_with_server(check)


@pytest.mark.parametrize(
    ("verb", "path", "matches"),
    [
        ("get", "/x", True),
        ("get", "/y/z", True),
        ("post", "/x", False),
        ("get", "/z", False),
        ("get", "/y", False),
    ],
)
def test_rules_for_paths_match_only_their_verbs_and_paths(verb: str, path: str, matches: bool) -> None:
    value = {
        "metadata": {"name": "s"},
        "spec": {
            "priorityLevelConfiguration": {"name": "level"},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": "*"}}],
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x", "/y/*"]}],
                }
            ],
        },
    }
    matcher = FlowSchemaMatcher([codec.from_value(value, FlowSchema)])
    flow = matcher.flow(Attributes(user=UserInfo("u"), verb=verb, path=path, is_resource=False))
    assert (flow is not None) == matches
