"""Large objects of one user do not delay those of another, and which thread a request uses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sampan.api import limits
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.http.wire import Wire

MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@asynccontextmanager
async def open_server() -> AsyncIterator[int]:
    clock, config = RealClock(), ServerConfig(secure_port=0, any_insecure_port=True)
    async with (
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=config, backend=backend, clock=clock) as server,
    ):
        async with Wire(server.insecure_port) as wire:
            group = "rbac.authorization.k8s.io"
            binding = {
                "metadata": {"name": "test"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user} for user in ("ann", "bob")],
            }
            assert (await wire.request("POST", f"/apis/{group}/v1/clusterrolebindings", binding)).code == 201
        yield server.insecure_port


async def send(port: int, user: str, path: str, body: Any, media: str = "application/json") -> int:
    async with Wire(port) as wire:
        headers = {"Impersonate-User": user, "Content-Type": media}
        return (await wire.request("POST", path, body, headers)).code


def large_config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {f"k{number}": "x" * 20 for number in range(4_000)}}


async def test_one_large_object_is_written_before_the_queue_of_another_user() -> None:
    done: list[str] = []
    async with open_server() as port:

        async def create(user: str, name: str) -> None:
            assert await send(port, user, MAPS, large_config_map(name)) == 201
            done.append(user)

        async with asyncio.TaskGroup() as group:
            for number in range(limits.WORKER_JOBS_PER_USER):
                group.create_task(create("ann", f"a{number}"))
            await asyncio.sleep(0)
            group.create_task(create("bob", "b"))
    assert done.index("bob") < limits.WORKER_JOBS_PER_USER // 2


async def test_large_object_is_written_while_yaml_of_another_user_is_decoded() -> None:
    yaml = b"spec:\n  resourceAttributes: {verb: get, resource: pods}\n" + b"".join(
        b"# comment\n  a%d: {b: [x, y]}\n" % number for number in range(8_000)
    )
    done: list[str] = []
    async with open_server() as port:

        async def run(user: str, path: str, body: Any, media: str) -> None:
            assert await send(port, user, path, body, media) < 500
            done.append(user)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(run("ann", REVIEWS, yaml, "application/yaml"))
            await asyncio.sleep(0)
            group.create_task(run("bob", MAPS, large_config_map("b"), "application/json"))
    assert done.index("bob") <= 1


async def test_user_with_too_many_large_bodies_is_asked_to_retry() -> None:
    async with open_server() as port:
        count = 3 * limits.WORKER_JOBS_PER_USER
        codes = await asyncio.gather(*(send(port, "ann", MAPS, large_config_map(f"a{at}")) for at in range(count)))
        assert set(codes) == {201, 429}
        assert await send(port, "ann", MAPS, large_config_map("later")) == 201
