"""The pods API of a node, through its socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec.protobuf.envelope import decode, wrap
from sampan.api.types.core_v1 import Pod, PodStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import RealClock
from sampan.kubelet.agent.pods_api import PodsApi, encode_pod, proto
from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import RpcError
from tests.eventually import eventually

pytest.importorskip("grpc", reason="grpcio is not installed")


def pod(name: str, phase: str = "Running") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"), status=PodStatus(phase=phase))


@asynccontextmanager
async def serving(root: Path, pods: list[Pod], *, is_open: bool = True) -> AsyncIterator[PodsApi]:
    api = PodsApi(root=root, pods=lambda: pods, clock=RealClock())
    if is_open:
        api.open()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(api.run())
        await eventually((root / "pods-api/pods-api.sock").exists)
        yield api
        task.cancel()


async def call(root: Path, name: str, request: Any) -> Any:
    return await calls.call(str(root / "pods-api/pods-api.sock"), proto(), "Pods", name, request, timeout_s=20)


def read(message: bytes) -> dict[str, Any]:
    return decode(wrap("v1", "Pod", message))


async def test_pods_are_listed_and_found_by_uid(tmp_path: Path) -> None:
    async with serving(tmp_path, [pod("b"), pod("a", "Pending")]):
        response = await call(tmp_path, "ListPods", proto().ListPodsRequest())
        assert [read(text)["metadata"]["name"] for text in response.pods] == ["a", "b"]
        response = await call(tmp_path, "GetPod", proto().GetPodRequest(podUID="uid-a"))
        assert response.pod == encode_pod(pod("a", "Pending"))
        assert read(response.pod)["status"]["phase"] == "Pending"
        with pytest.raises(RpcError, match="code = NotFound desc = pod with UID uid-z not found"):
            await call(tmp_path, "GetPod", proto().GetPodRequest(podUID="uid-z"))


async def test_requests_are_refused_until_the_pods_are_known(tmp_path: Path) -> None:
    async with serving(tmp_path, [], is_open=False):
        with pytest.raises(RpcError, match="code = FailedPrecondition desc = Kubelet is initializing"):
            await call(tmp_path, "ListPods", proto().ListPodsRequest())


async def test_watch_begins_with_all_pods_and_continues_with_changes(tmp_path: Path) -> None:
    pods = [pod("a"), pod("b")]
    async with serving(tmp_path, pods) as api:
        socket = str(tmp_path / "pods-api/pods-api.sock")
        events = calls.stream(socket, proto(), "Pods", "WatchPods", proto().WatchPodsRequest())

        async def receive() -> tuple[int, str, str]:
            event = await anext(events)
            value = read(event.pod) if event.pod else {}
            return event.type, value.get("metadata", {}).get("name", ""), value.get("status", {}).get("phase", "")

        assert [await receive() for _ in range(3)] == [(1, "a", "Running"), (1, "b", "Running"), (4, "", "")]
        pods[:] = [pod("a", "Succeeded"), pod("c")]
        api.notify()
        assert [await receive() for _ in range(3)] == [(2, "a", "Succeeded"), (1, "c", "Running"), (3, "b", "")]
