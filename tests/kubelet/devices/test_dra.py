"""ResourceClaims prepared by a DRA driver over real gRPC, with the permissions of a node."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Container, Pod
from sampan.api.types.resource_v1 import ResourceClaim, ResourceSlice
from sampan.apiserver.request.call import UserInfo
from sampan.host.clock import Clock, VirtualClock
from sampan.kubelet.devices.dra import ClaimNotPrepared, DraManager
from sampan.kubelet.devices.dra.manager import TYPE
from sampan.kubelet.plugin_registry import PluginRegistry
from sampan.machinery.client import Client, PatchType
from sampan.testing import Cluster
from tests.eventually import eventually
from tests.kubelet.devices.dra_driver import NAME, BoatDriver
from tests.kubelet.node_api_server import node_api_server


class Scene:
    def __init__(self, cluster: Cluster, root: Path) -> None:
        self.cluster, self.root, self.client = cluster, root, cluster.client
        self.reconciled_pods: list[str] = []
        self.pod_recorded = asyncio.Event()

    @asynccontextmanager
    async def running_manager(self, *, clock: Clock | None = None) -> AsyncIterator[DraManager]:
        clock = clock or self.cluster.clock
        user = UserInfo("system:node:n", groups=("system:nodes", "system:authenticated"))
        client = Client(transport=self.cluster.assembly.transport.as_user(user), clock=clock, component="kubelet")
        manager = DraManager(
            root=self.root, node_name="n", client=client, clock=clock, look_at=lambda uid: self._record_pod(uid)
        )
        registry = PluginRegistry(directory=self.root / "r", handlers={TYPE: manager}, clock=clock)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in (manager.run(), registry.run())]
            yield manager
            for task in tasks:
                task.cancel()

    @asynccontextmanager
    async def registered_driver(self, driver: BoatDriver) -> AsyncIterator[DraManager]:
        driver.registered.clear()
        async with self.running_manager() as manager, driver.listen(self.root / "r"):
            async with asyncio.timeout(60):
                await driver.registered.wait()
            yield manager

    def _record_pod(self, uid: str) -> None:
        self.reconciled_pods.append(uid)
        self.pod_recorded.set()

    async def claim(self, name: str, *pods: Pod, is_allocated: bool = True) -> ResourceClaim:
        request = {"name": "one", "exactly": {"deviceClassName": "boats"}}
        value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}
        claims = self.client.for_kind(ResourceClaim)
        await claims.create(json.from_value(value, ResourceClaim))
        return await self.reserve(name, *pods, is_allocated=is_allocated)

    async def reserve(self, name: str, *pods: Pod, is_allocated: bool = True) -> ResourceClaim:
        result = {"request": "one", "driver": NAME, "pool": "harbour", "device": "boat"}
        users = [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid} for pod in pods]
        status: dict[str, Any] = {"reservedFor": users}
        if is_allocated:
            status["allocation"] = {"devices": {"results": [result]}}
        return await self.client.for_kind(ResourceClaim).patch(
            name, {"status": status}, "default", type=PatchType.MERGE, subresource="status"
        )

    async def pod(self, name: str, claim: str = "c", request: str | None = None) -> Pod:
        used = {"name": "boat", **({"request": request} if request else {})}
        container = {"name": "c", "image": "i", "resources": {"claims": [used]}}
        other = {"name": "other", "image": "i"}
        spec = {
            "nodeName": "n",
            "automountServiceAccountToken": False,
            "containers": [container, other],
            "resourceClaims": [{"name": "boat", "resourceClaimName": claim}],
        }
        value = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        return await self.client.for_kind(Pod).create(json.from_value(value, Pod))


def run_scenario(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory(prefix="sd") as directory:  # a socket's path must be short
            async with asyncio.timeout(60), node_api_server() as cluster:
                await scenario(Scene(cluster, Path(directory)))

    asyncio.run(main())


async def prepare(manager: DraManager, pod: Pod) -> None:
    """Prepare the claims of a pod, as soon as the Node authorizer knows that the node may read them."""

    async def is_prepared() -> bool:
        try:
            await manager.prepare(pod)
        except ClaimNotPrepared as error:
            if "forbidden" not in str(error):
                raise
            return False
        return True

    await eventually(is_prepared)


def first_container(pod: Pod) -> Container:
    return (pod.spec.containers or [])[0]


@pytest.mark.parametrize("version", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
def test_claim_is_prepared_once_and_unprepared_after_its_last_pod(version: str) -> None:
    async def scenario(scene: Scene) -> None:
        driver = BoatDriver(versions=(version,))
        pods = [await scene.pod(name) for name in ("one", "two")]
        await scene.claim("c", *pods)
        async with scene.registered_driver(driver) as manager:
            assert driver.status.plugin_registered
            for pod in (pods[0], pods[0], pods[1]):
                await prepare(manager, pod)
            assert driver.calls == [("prepare", ["c"])]
            assert manager.run_options(pods[0], first_container(pods[0])).cdi_devices == ["example.com/boat=boat"]
            assert manager.run_options(pods[0], (pods[0].spec.containers or [])[1]).cdi_devices == []
            await manager.unprepare(pods[0].metadata.uid)
            assert len(driver.calls) == 1
            await manager.unprepare(pods[1].metadata.uid)
            assert driver.calls[1:] == [("unprepare", ["c"])]
            await manager.unprepare(pods[1].metadata.uid)
            assert len(driver.calls) == 2

    run_scenario(scenario)


def test_container_gets_only_devices_of_its_request() -> None:
    async def scenario(scene: Scene) -> None:
        pod = await scene.pod("p", request="one")
        await scene.claim("c", pod)
        async with scene.registered_driver(BoatDriver(requests=("one",))) as manager:
            await prepare(manager, pod)
            assert manager.run_options(pod, first_container(pod)).cdi_devices == ["example.com/boat=boat"]
        async with scene.registered_driver(BoatDriver(requests=("another",))) as manager:
            await prepare(manager, pod)
            assert manager.run_options(pod, first_container(pod)).cdi_devices == []

    run_scenario(scenario)


def test_prepare_and_unprepare_errors_are_reported() -> None:
    async def scenario(scene: Scene) -> None:
        driver, pod = BoatDriver(), await scene.pod("p")

        async def failure(manager: DraManager) -> str:
            with pytest.raises(ClaimNotPrepared) as fault:
                await prepare(manager, pod)
            return str(fault.value).removeprefix("prepare dynamic resources: ")

        async with scene.running_manager() as manager:
            assert await failure(manager) == 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
            claim = await scene.claim("c", is_allocated=False)
            message = f"pod p ({pod.metadata.uid}) is not allowed to use ResourceClaim c ({claim.metadata.uid})"
            assert await failure(manager) == message
            await scene.reserve("c", pod)
            assert await failure(manager) == f"DRA driver {NAME} is not registered"
        async with scene.registered_driver(driver) as manager:
            driver.fault = "the boat is full"
            message = "NodePrepareResources failed for ResourceClaim c: the boat is full"
            assert await failure(manager) == message
            driver.fault = "rpc"
            assert await failure(manager) == "NodePrepareResources: rpc error: code = Internal desc = no boats"
            driver.fault = ""
            await prepare(manager, pod)
            driver.fault = "still on the water"
            with pytest.raises(ClaimNotPrepared) as fault:
                await manager.unprepare(pod.metadata.uid)
            message = "NodeUnprepareResources failed for ResourceClaim c: still on the water"
            assert str(fault.value) == f"unprepare dynamic resources: {message}"

    run_scenario(scenario)


def test_restarted_kubelet_prepares_again_and_unprepares_unused_claims() -> None:
    async def scenario(scene: Scene) -> None:
        driver, pod = BoatDriver(), await scene.pod("p")
        await scene.claim("c", pod)
        async with scene.registered_driver(driver) as manager:
            await prepare(manager, pod)
        async with scene.registered_driver(driver) as manager:
            assert manager.run_options(pod, first_container(pod)).cdi_devices == ["example.com/boat=boat"]
            await prepare(manager, pod)
            assert driver.calls == [("prepare", ["c"])] * 2
        async with scene.registered_driver(driver) as manager:
            await manager.keep_only([pod.metadata.uid])
            assert len(driver.calls) == 2
            await manager.keep_only([])
            assert driver.calls[2:] == [("unprepare", ["c"])]

    run_scenario(scenario)


def test_device_health_is_reported_in_container_statuses() -> None:
    async def scenario(scene: Scene) -> None:
        driver, pod = BoatDriver(health=[]), await scene.pod("p")
        await scene.claim("c", pod)
        async with scene.registered_driver(driver) as manager:
            await prepare(manager, pod)

            def list_device_health() -> list[tuple[str, str, str, str | None]]:
                statuses = manager.statuses(pod, first_container(pod))
                return [
                    (resource_status.name, status.resourceID, status.health, status.message)
                    for resource_status in statuses
                    for status in resource_status.resources
                ]

            assert list_device_health() == [("claim:boat", "example.com/boat=boat", "Unknown", None)]
            driver.health = [("boat", 2, "it leaks")]
            driver.changed.set()
            async with asyncio.timeout(60):
                await scene.pod_recorded.wait()
            assert scene.reconciled_pods == [pod.metadata.uid]
            assert list_device_health() == [("claim:boat", "example.com/boat=boat", "Unhealthy", "it leaks")]

    run_scenario(scenario)


def test_driver_without_a_supported_version_is_not_registered() -> None:
    async def scenario(scene: Scene) -> None:
        driver = BoatDriver(versions=("v7.DRAPlugin",))
        async with scene.registered_driver(driver):
            assert not driver.status.plugin_registered
            services = '["v1.DRAPlugin" "v1beta1.DRAPlugin"]'
            message = 'none of services supported by the plugin (["v7.DRAPlugin"]) are supported by the kubelet'
            start = "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA"
            assert (
                driver.status.error
                == f"{start} driver plugin {NAME} at endpoint {scene.root}/r/b.sock: {message} ({services})"
            )

    run_scenario(scenario)


def test_resource_slices_are_deleted_after_their_driver_stops() -> None:
    async def scenario(scene: Scene) -> None:
        clock, driver, slices = VirtualClock(), BoatDriver(), scene.client.for_kind(ResourceSlice)

        async def publish(name: str) -> None:
            spec = {
                "driver": NAME,
                "nodeName": "n",
                "pool": {"name": name, "resourceSliceCount": 1},
                "devices": [{"name": "boat"}],
            }
            await slices.create(json.from_value({"metadata": {"name": name}, "spec": spec}, ResourceSlice))

        async def has_no_slices() -> bool:
            return not (await slices.list()).items

        async def wait_until_deleted() -> None:
            await eventually(has_no_slices, step=lambda: clock.advance(0.5))

        await publish("before")
        async with scene.running_manager(clock=clock):
            await wait_until_deleted()
            async with driver.listen(scene.root / "r"):
                await eventually(driver.registered.is_set, step=lambda: clock.advance(1))
                await publish("now")
                await clock.advance(100)
                assert len((await slices.list()).items or ()) == 1
            await clock.advance(20)
            assert len((await slices.list()).items or ()) == 1
            await wait_until_deleted()

    run_scenario(scenario)
