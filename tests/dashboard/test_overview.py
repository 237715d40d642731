"""What the overview of a cluster sums up, what it could not read, how often it reads resource usage, and when it is
complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from sampan.dashboard.overview.follower import ObjectFollower
from sampan.dashboard.overview.objects import NodeStatus, OverviewMetadata, OverviewNode, OverviewNodeInfo
from sampan.dashboard.overview.state import ClusterState
from sampan.dashboard.overview.subscription import usage_interval_s
from sampan.machinery import errors
from sampan.machinery.client.responses import BytesResponse
from sampan.machinery.client.transport import Request
from sampan.machinery.client.user_api import EventLines, UserApi
from sampan.testing import Cluster
from tests.dashboard.page import admin_page
from tests.eventually import eventually


@pytest.mark.parametrize(("nodes", "interval_s"), [(0, 29), (100, 29), (400, 119), (1000, 299), (50_000, 299)])
def test_usage_interval_grows_with_the_number_of_nodes(nodes: int, interval_s: float) -> None:
    assert usage_interval_s(nodes) == interval_s


async def test_overview_becomes_complete_after_the_initial_lists(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        await stream.send(id=1, op="subscribe", kind="overview")
        message = await stream.receive(type="snapshot", id=1)
        while not message["overview"]["isComplete"]:
            message = await stream.receive(type="changes", id=1)
        assert message["overview"]["unreadable"] == []
        while "store" not in message["overview"]:
            message = await stream.receive(type="changes", id=1)
        assert message["overview"]["store"]["objects"] > 0


def node(name: str, boot_id: str, cpu: str = "4", memory: str = "8Gi") -> OverviewNode:
    info = OverviewNodeInfo(bootID=boot_id)
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    return OverviewNode(metadata=OverviewMetadata(name=name), status=NodeStatus(allocatable=allocatable, nodeInfo=info))


def nodes_of(*nodes: OverviewNode, usage: dict[str, tuple[int, int]] | None = None) -> dict[str, Any]:
    state = ClusterState()
    for overview_node in nodes:
        state.put_node(overview_node)
    state.node_usage = usage or {}
    value: dict[str, Any] = state.overview({})["nodes"]
    return value


def test_a_machine_with_several_nodes_counts_once() -> None:
    """Each node of a machine reports all of its CPU and memory; the number of pods is a limit of each node."""
    usage = {"a": (500, 1 << 30), "b": (600, 1 << 30), "c": (100, 1 << 20)}
    shared = nodes_of(node("a", "one"), node("b", "one"), node("c", "two", cpu="2", memory="1Gi"), usage=usage)
    assert (shared["count"], shared["machines"]) == (3, 2)
    assert shared["allocatable"] == {"cpu": 6, "memory": 9 << 30, "pods": 330}
    assert shared["usage"] == {"cpu": 0.7, "memory": (1 << 30) + (1 << 20)}


def test_nodes_that_do_not_report_their_machine_count_each() -> None:
    separate = nodes_of(node("a", ""), node("b", ""))
    assert (separate["machines"], separate["allocatable"]["cpu"]) == (2, 8)


class FailingApi:
    """An API that answers each list with the next response."""

    def __init__(self, *responses: errors.ApiError | bytes) -> None:
        self.responses = list(responses)

    async def send(self, request: Request) -> BytesResponse:
        response = self.responses.pop(0)
        if isinstance(response, bytes):
            return BytesResponse(200, {}, response)
        raise response

    @asynccontextmanager
    async def watch(self, request: Request) -> AsyncIterator[EventLines]:
        await asyncio.Event().wait()
        raise AssertionError
        yield


@pytest.mark.parametrize(
    ("error", "failure", "is_forbidden"),
    [
        (errors.internal_error("the store is gone"), "the store is gone", False),
        (errors.generic(403), "", True),
        (errors.generic(404), None, False),
    ],
    ids=["failed", "forbidden", "kind that the server does not have"],
)
async def test_kind_that_cannot_be_read_is_reported(
    error: errors.ApiError, failure: str | None, is_forbidden: bool
) -> None:
    api = FailingApi(error, b'{"metadata":{"resourceVersion":"1"},"items":[]}')
    follower = ObjectFollower(
        api=cast(UserApi, api),
        path="/api/v1/nodes",
        type=OverviewNode,
        on_reset=lambda: None,
        on_object=lambda node: None,
        on_deleted=lambda node: None,
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follower.run())
        await follower.synced.wait()
        assert follower.is_forbidden is is_forbidden
        assert bool(follower.failure) is (failure is not None)
        assert (failure or "") in follower.failure
        if not is_forbidden and failure:
            await eventually(lambda: not follower.failure)
        task.cancel()
