"""CRI container events, from a fake runtime: the containerd of the tests is too old to send them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from grpc import aio, method_handlers_generic_handler  # type: ignore[import-untyped]
from grpc import unary_stream_rpc_method_handler as streaming
from grpc import unary_unary_rpc_method_handler as plain

from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import RealClock
from sampan.runtimes import contract, labels
from sampan.runtimes.cri import CriRuntime
from sampan.runtimes.cri.client import load

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))


class FakeRuntime:
    """A CRI runtime with one pod and one container, whose state a test changes."""

    def __init__(self) -> None:
        self.cri = load()
        self.state, self.lists = "CONTAINER_RUNNING", 0
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.metadata = self.cri.PodSandboxMetadata(name="p", namespace="ns", uid="u")

    def handlers(self) -> Any:
        schema, handlers = self.cri, {}
        for name in ("Version", "Status", "ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus"):
            method = schema.method("RuntimeService", name)
            handlers[name] = plain(
                getattr(self, name),
                request_deserializer=method.request.FromString,
                response_serializer=method.response.SerializeToString,
            )
        method = schema.method("RuntimeService", "GetContainerEvents")
        handlers["GetContainerEvents"] = streaming(
            self.GetContainerEvents,
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
        return method_handlers_generic_handler("runtime.v1.RuntimeService", handlers)

    async def Version(self, request: Any, context: Any) -> Any:
        return self.cri.VersionResponse(runtime_name="fake", runtime_version="2.0")

    async def Status(self, request: Any, context: Any) -> Any:
        return self.cri.StatusResponse()

    async def ListPodSandbox(self, request: Any, context: Any) -> Any:
        self.lists += 1
        assert set(request.filter.label_selector) <= {labels.NODE, labels.POD_UID}
        return self.cri.ListPodSandboxResponse(items=[self.cri.PodSandbox(id="s", metadata=self.metadata)])

    async def ListContainers(self, request: Any, context: Any) -> Any:
        row = self.cri.Container(id="c", pod_sandbox_id="s", state=self.state, labels={labels.POD_UID: "u"})
        return self.cri.ListContainersResponse(containers=[row])

    async def PodSandboxStatus(self, request: Any, context: Any) -> Any:
        return self.cri.PodSandboxStatusResponse(status=self.cri.PodSandboxStatus(id="s", metadata=self.metadata))

    async def ContainerStatus(self, request: Any, context: Any) -> Any:
        metadata = self.cri.ContainerMetadata(name="main")
        status = self.cri.ContainerStatus(id="c", metadata=metadata, state=self.state, exit_code=4)
        return self.cri.ContainerStatusResponse(status=status)

    async def GetContainerEvents(self, request: Any, context: Any) -> AsyncIterator[Any]:
        while (event := await self.events.get()) is not None:
            yield event

    def end(self) -> None:
        self.state = "CONTAINER_EXITED"
        status = self.cri.PodSandboxStatus(id="s", metadata=self.metadata)
        self.events.put_nowait(self.cri.ContainerEventResponse(container_id="c", pod_sandbox_status=status))


async def test_container_event_updates_the_report_and_calls_back(tmp_path: Path) -> None:
    fake, event, socket = FakeRuntime(), asyncio.Event(), tmp_path / "s"
    server = aio.server()
    server.add_generic_rpc_handlers((fake.handlers(),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    runtime = CriRuntime(
        endpoint=f"unix://{socket}",
        directory=tmp_path,
        node="n",
        clock=RealClock(),
        on_pod_change=lambda uid: event.set(),
        relist_s=600,
    )
    try:
        async with asyncio.timeout(60), runtime:
            assert runtime.pod_report(POD).containers[0].state == contract.RUNNING
            assert (runtime.name, runtime.version, runtime.list_pod_uids()) == ("fake", "2.0", ["u"])
            event.clear()
            lists_before = fake.lists
            fake.end()
            await event.wait()
            report = runtime.pod_report(POD).containers[0]
            assert (report.id, report.state, report.exit_code) == ("fake://c", contract.EXITED, 4)
            assert fake.lists == lists_before + 1
    finally:
        fake.events.put_nowait(None)
        await server.stop(0)
