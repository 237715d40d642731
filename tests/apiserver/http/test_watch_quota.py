"""A user's watches and the selectors of them are limited, and a watch occupies seats until it has started."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from sampan.api import limits
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.flowcontrol.priority_level import PriorityLevel
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.http.wire import Wire
from tests.eventually import eventually

MAPS = "/api/v1/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
USERS = ("ann", "bob")


@dataclass
class Watches:
    """A server, and the watches that users have open on it."""

    server: ApiServer
    stack: AsyncExitStack

    async def wire(self) -> Wire:
        return await self.stack.enter_async_context(Wire(self.server.insecure_port))

    def priority_level(self) -> PriorityLevel:
        """Return the priority level of users without a flow schema of their own."""
        fairness = self.server.components.http.in_flight_limiter.fairness
        assert fairness is not None
        return fairness.levels["global-default"]

    async def open(self, user: str, query: str = "") -> int:
        """Open a watch, and return the code of the response."""
        wire = await self.wire()
        headers = f"Host: x\r\nImpersonate-User: {user}\r\n" if user else "Host: x\r\n"
        wire.send(f"GET {MAPS}?watch=1&{query} HTTP/1.1\r\n{headers}\r\n".encode())
        return (await wire.head())[0]


@asynccontextmanager
async def open_watches() -> AsyncIterator[Watches]:
    clock, config = RealClock(), ServerConfig(secure_port=0, any_insecure_port=True)
    async with (
        MemoryBackend(clock=clock) as backend,
        ApiServer(config=config, backend=backend, clock=clock) as server,
        AsyncExitStack() as stack,
    ):
        watches = Watches(server, stack)
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": "test"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user} for user in USERS],
        }
        assert (await (await watches.wire()).request("POST", RBAC, binding)).code == 201
        yield watches


async def test_number_of_watches_of_a_user_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCHES_PER_USER", 3)
    async with open_watches() as watches:
        assert [await watches.open("ann") for _ in range(4)] == [200, 200, 200, 429]
        assert await watches.open("bob") == 200
        assert [await watches.open("") for _ in range(4)] == [200] * 4


async def test_selectors_of_the_watches_of_a_user_are_limited() -> None:
    text = "a+in+(" + "v" * 60 + ",v" * 8_000 + ")"
    most = limits.WATCH_SELECTOR_CHARACTERS_PER_USER // len(text)
    async with open_watches() as watches:
        codes = [await watches.open("ann", f"labelSelector={text}") for _ in range(most + 1)]
        assert codes == [200] * most + [429]
        assert await watches.open("ann", "labelSelector=a=b") == 200
        assert await watches.open("bob", f"labelSelector={text}") == 200


async def test_closed_and_refused_watches_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCHES_PER_USER", 1)
    async with open_watches() as watches:
        assert await watches.open("ann", "labelSelector=!") == 400
        wire = await watches.wire()
        response = await wire.request("GET", f"{MAPS}?watch=1&timeoutSeconds=1", headers={"Impersonate-User": "ann"})
        assert response.code == 200
        assert await watches.open("ann") == 200


async def test_watch_occupies_seats_only_until_it_has_started() -> None:
    async with open_watches() as watches:
        level = watches.priority_level()
        dispatched = level.dispatched
        assert await watches.open("ann") == 200
        assert (level.dispatched - dispatched, level.seats_in_use) == (1, 0)


async def test_watches_wait_for_seats_as_lists_do() -> None:
    async with open_watches() as watches:
        level = watches.priority_level()
        seats = level.seats
        level.seats_in_use += seats
        opening = asyncio.create_task(watches.open("ann"))
        await eventually(lambda: level.waiting == 1)
        level.executing += 1
        level.leave(seats)
        assert await opening == 200
