"""A pod is bound later if the API server cannot be reached for a while."""

from dataclasses import replace
from typing import Any, cast

from sampan.api.types.core_v1 import Pod
from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.client import ConnectionFailed, Request, Response
from tests.apiserver.pods import pod
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster


class UnreachableTransport:
    """A transport on which the next bindings fail to connect, as many as `left` says."""

    def __init__(self, inner: LoopbackTransport, left: list[int]) -> None:
        self._inner, self._left = inner, left
        self.watch, self.close = inner.watch, inner.close

    def as_user(self, user: UserInfo) -> "UnreachableTransport":
        return UnreachableTransport(self._inner.as_user(user), self._left)

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/binding") and self._left[0] > 0:
            self._left[0] -= 1
            raise ConnectionFailed("connection refused", may_have_happened=False)
        return await self._inner.send(request)


def with_unreachable_server(c: Cluster, times: int) -> Cluster:
    transport: Any = UnreachableTransport(c.transport, [times])
    return replace(c, transport=cast(LoopbackTransport, transport))


async def test_a_binding_that_does_not_reach_the_server_is_retried() -> None:
    async with (
        pod_cluster() as c,
        c.running("node-lifecycle-controller"),
        c.nodes("n"),
        with_unreachable_server(c, 20).running_scheduler(),
    ):
        await c.clock.advance(10)
        await c.client.for_kind(Pod).create(pod(name="p"))
        await c.clock.advance(0)
        assert not (await c.client.for_kind(Pod).get("p", "default")).spec.nodeName
        await c.clock.advance(120)
        assert (await c.client.for_kind(Pod).get("p", "default")).spec.nodeName == "n"
