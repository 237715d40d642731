"""The device manager with a device plugin over real gRPC."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Pod
from sampan.host.clock import VirtualClock
from sampan.kubelet.devices import DeviceManager
from sampan.kubelet.devices.pod_resources import PodResources
from sampan.kubelet.devices.pod_resources import proto as resources_proto
from sampan.kubelet.plugin_registry import PluginRegistry, calls
from sampan.kubelet.plugin_registry.calls import RpcError
from sampan.runtimes.config import Device, Mount
from tests.eventually import eventually
from tests.kubelet.devices.device_plugin import BOAT, BoatPlugin


class Scene:
    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, VirtualClock()
        self.changed = asyncio.Event()
        self.reconciled_pods: list[str] = []
        self.plugin = BoatPlugin(root / "device-plugins")

    @asynccontextmanager
    async def running_manager(self) -> AsyncIterator[DeviceManager]:
        manager = DeviceManager(
            root=self.root, clock=self.clock, on_change=self.changed.set, look_at=self.reconciled_pods.append
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            await eventually((self.root / "device-plugins/kubelet.sock").exists)
            yield manager
            task.cancel()

    @asynccontextmanager
    async def registered_plugin(self) -> AsyncIterator[DeviceManager]:
        async with self.running_manager() as manager, self.plugin.listen():
            self.changed.clear()
            await self.plugin.register()
            await self.wait_for_change()
            yield manager

    async def wait_for_change(self) -> None:
        """Wait until the plugin has reported its devices."""
        async with asyncio.timeout(60):
            await self.changed.wait()
        self.changed.clear()


def run_scenario(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory(prefix="sd") as directory:  # a socket's path must be short
            async with asyncio.timeout(60):
                await scenario(Scene(Path(directory)))

    asyncio.run(main())


def pod(uid: str, *counts: int, inits: tuple[int, ...] = ()) -> Pod:
    def container(name: str, count: int) -> dict[str, Any]:
        return {"name": name, "image": "i", "resources": {"limits": {BOAT: str(count)}, "requests": {BOAT: str(count)}}}

    spec = {
        "containers": [container(f"c{index}", count) for index, count in enumerate(counts)],
        "initContainers": [container(f"i{index}", count) for index, count in enumerate(inits)],
    }
    return json.from_value({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}, Pod)


async def rejection_message(manager: DeviceManager, rejected_pod: Pod) -> str:
    failure = await manager.admit(rejected_pod, is_running=False)
    assert failure is not None
    assert failure.reason == "UnexpectedAdmissionError"
    return failure.message


def test_devices_are_counted_and_allocated(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.plugin.container_response = {
            "mounts": [{"container_path": "/harbour", "host_path": "/srv", "read_only": True}],
            "devices": [{"container_path": "/dev/boat", "host_path": "/dev/null", "permissions": "rw"}],
            "annotations": {"boats": "yes"},
            "cdi_devices": [{"name": "example.com/boat=one"}],
        }
        async with scene.registered_plugin() as manager:
            assert manager.capacity() == ({BOAT: "2"}, {BOAT: "2"})
            assert await manager.admit(pod("a", 2), is_running=False) is None
            assert sorted(scene.plugin.list_requests("Allocate")[0].container_requests[0].devices_ids) == ["one", "two"]
            options = await manager.run_options(pod("a", 2), "c0")
            assert (options.env, options.annotations) == ({"BOATS": "one two"}, {"boats": "yes"})
            assert options.mounts == [Mount(source=Path("/srv"), target="/harbour", is_read_only=True)]
            assert options.devices == [Device(host_path="/dev/null", path="/dev/boat", permissions="rw")]
            assert options.cdi_devices == ["example.com/boat=one"]
            message = f"requested number of devices unavailable for {BOAT}. Requested: 1, Available: 0"
            assert (
                await rejection_message(manager, pod("b", 1))
                == f"Allocate failed due to {message}, which is unexpected"
            )
            manager.forget(["a"])
            assert await manager.admit(pod("b", 1), is_running=False) is None
            assert (await manager.run_options(pod("b", 1), "c0")).env == {"BOATS": "one"}
            assert (
                scene.plugin.list_requests("PreStartContainer")
                == scene.plugin.list_requests("GetPreferredAllocation")
                == []
            )

    run_scenario(scenario)


def test_plugin_in_the_registry_directory_is_registered_and_deregistered(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        directory = scene.root / "plugins_registry"
        async with scene.running_manager() as manager:
            registry = PluginRegistry(directory=directory, handlers={"DevicePlugin": manager}, clock=scene.clock)
            async with scene.plugin.listen(directory):
                await registry.scan()
                await scene.wait_for_change()
                assert await manager.admit(pod("a", 1), is_running=False) is None
                scene.changed.clear()
            await registry.scan()
            await scene.wait_for_change()
            assert manager.capacity() == ({BOAT: "2"}, {BOAT: "0"})

    run_scenario(scenario)


def test_devices_of_init_containers_are_reused_by_containers(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.registered_plugin() as manager:
            assert await manager.admit(pod("a", 1, 1, inits=(2,)), is_running=False) is None
            allocations = [
                (await manager.run_options(pod("a", 1, 1, inits=(2,)), name)).env["BOATS"]
                for name in ("i0", "c0", "c1")
            ]
            assert allocations == ["one two", "one", "two"]

    run_scenario(scenario)


def test_preferred_allocation_and_pre_start_container_are_called(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.plugin.prefers, scene.plugin.pre_starts = ("two",), True
        async with scene.registered_plugin() as manager:
            assert await manager.admit(pod("a", 1), is_running=False) is None
            [request] = scene.plugin.list_requests("GetPreferredAllocation")[0].container_requests
            assert (sorted(request.available_deviceIDs), request.allocation_size) == (["one", "two"], 1)
            assert (await manager.run_options(pod("a", 1), "c0")).env == {"BOATS": "two"}
            assert [list(request.devices_ids) for request in scene.plugin.list_requests("PreStartContainer")] == [
                ["two"]
            ]
            scene.plugin.fault = "sunk"
            with pytest.raises(RpcError) as fault:
                await manager.run_options(pod("a", 1), "c0")
            message = "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = sunk"
            assert str(fault.value) == message

    run_scenario(scenario)


def test_failed_allocate_call_rejects_the_pod(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.plugin.fault = "not today"
        async with scene.registered_plugin() as manager:
            message = "rpc error: code = Internal desc = not today"
            assert (
                await rejection_message(manager, pod("a", 1))
                == f"Allocate failed due to {message}, which is unexpected"
            )
            scene.plugin.fault = ""
            assert await manager.admit(pod("b", 2), is_running=False) is None

    run_scenario(scenario)


def test_invalid_data_of_a_plugin_makes_its_devices_unavailable(tmp_path: Path) -> None:
    """The manager treats the plugin as stopped, and accepts a new registration."""

    async def scenario(scene: Scene) -> None:
        async with scene.registered_plugin() as manager:
            scene.plugin.send_invalid_data()
            await scene.wait_for_change()
            assert manager.capacity() == ({BOAT: "2"}, {BOAT: "0"})
            await scene.plugin.register()
            await scene.wait_for_change()
            assert manager.capacity() == ({BOAT: "2"}, {BOAT: "2"})

    run_scenario(scenario)


def test_unhealthy_devices_and_stopped_plugins_reduce_allocatable(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.running_manager() as manager:
            async with scene.plugin.listen():
                await scene.plugin.register()
                await scene.wait_for_change()
                assert await manager.admit(pod("a", 1), is_running=False) is None
                scene.plugin.change(one="Unhealthy")
                await scene.wait_for_change()
                assert manager.capacity() == ({BOAT: "2"}, {BOAT: "1"})
                assert scene.reconciled_pods == ["a"]
                [status] = manager.statuses(pod("a", 1), "c0")
                assert (status.name, [(resource.resourceID, resource.health) for resource in status.resources]) == (
                    BOAT,
                    [("one", "Unhealthy")],
                )
                message = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"
                assert f"{message} {BOAT}" in await rejection_message(manager, pod("a", 1))
            await scene.wait_for_change()
            assert manager.capacity() == ({BOAT: "2"}, {BOAT: "0"})
            assert "no healthy devices present" in await rejection_message(manager, pod("b", 1))
            await scene.clock.advance(301)
            assert manager.capacity() == ({BOAT: "0"}, {BOAT: "0"})

    run_scenario(scenario)


def test_restarted_kubelet_restores_device_allocations(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.registered_plugin() as manager:
            assert await manager.admit(pod("a", 1), is_running=False) is None
        async with scene.registered_plugin() as manager:
            scene.plugin.calls.clear()
            assert await manager.admit(pod("a", 1), is_running=False) is None
            assert (await manager.run_options(pod("a", 1), "c0")).env == {"BOATS": "one"}
            assert scene.plugin.list_requests("Allocate") == []
            assert await manager.admit(pod("b", 1), is_running=False) is None
            assert (await manager.run_options(pod("b", 1), "c0")).env == {"BOATS": "two"}
        async with scene.running_manager() as manager:  # the plugin has not registered yet
            scene.changed.clear()
            assert manager.capacity() == ({BOAT: "0"}, {BOAT: "0"})
            assert await manager.admit(pod("a", 1), is_running=True) is None
            manager.keep_only(["b"])
            async with scene.plugin.listen():
                await scene.plugin.register()
                await scene.wait_for_change()
                assert await manager.admit(pod("c", 1), is_running=False) is None
                assert (await manager.run_options(pod("c", 1), "c0")).env == {"BOATS": "one"}

    run_scenario(scenario)


def test_corrupt_checkpoint_is_ignored(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.registered_plugin() as manager:
            assert await manager.admit(pod("a", 2), is_running=False) is None
        file = scene.root / "device-plugins/kubelet_internal_checkpoint"
        file.write_text(file.read_text().replace('"a"', '"z"'))
        async with scene.registered_plugin() as manager:
            assert await manager.admit(pod("b", 2), is_running=False) is None

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("registration", "message"),
    [
        ({"version": "v9"}, 'requested API version "v9" is not supported by kubelet. Supported version is ["v1beta1"]'),
        ({"resource_name": "cpu"}, 'the ResourceName "cpu" is invalid'),
    ],
)
def test_invalid_registrations_are_rejected(tmp_path: Path, registration: dict[str, str], message: str) -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.running_manager() as manager, scene.plugin.listen():
            with pytest.raises(RpcError) as fault:
                await scene.plugin.register(**registration)
            assert str(fault.value) == f"rpc error: code = Unknown desc = {message}"
            assert manager.capacity() == ({}, {})

    run_scenario(scenario)


def test_the_pod_resources_api_lists_the_devices_of_pods(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.registered_plugin() as manager:
            assert await manager.admit(pod("a", 1), is_running=False) is None
            resources = PodResources(
                root=scene.root,
                devices=manager,
                claims=lambda pod, container: [],
                pods=lambda: [pod("a", 1)],
                clock=scene.clock,
            )
            async with asyncio.TaskGroup() as group:
                task = group.create_task(resources.run())
                socket, schema = scene.root / "pod-resources/kubelet.sock", resources_proto()
                await eventually(socket.exists)

                async def call_method(name: str, request: Any) -> Any:
                    return await calls.call(str(socket), schema, "PodResourcesLister", name, request, timeout_s=20)

                [pod_resources] = (await call_method("List", schema.ListPodResourcesRequest())).pod_resources
                [container] = pod_resources.containers
                assert (pod_resources.name, pod_resources.namespace, container.name) == ("a", "default", "c0")
                assert [(device.resource_name, list(device.device_ids)) for device in container.devices] == [
                    (BOAT, ["one"])
                ]
                allocatable_devices = (
                    await call_method("GetAllocatableResources", schema.AllocatableResourcesRequest())
                ).devices
                assert [list(device.device_ids) for device in allocatable_devices] == [["one"], ["two"]]
                request = schema.GetPodResourcesRequest(pod_name="a", pod_namespace="default")
                assert (await call_method("Get", request)).pod_resources == pod_resources
                with pytest.raises(RpcError, match="pod z in namespace default not found"):
                    await call_method("Get", schema.GetPodResourcesRequest(pod_name="z", pod_namespace="default"))
                task.cancel()

    run_scenario(scenario)
