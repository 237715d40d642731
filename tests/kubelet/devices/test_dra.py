"""Claims of dynamic resources, prepared by a driver that really speaks gRPC, with the rights of a node."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import Container, Node, Pod, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import ResourceClaim, ResourceSlice
from sampan.apiserver.request.call import UserInfo
from sampan.kubelet.devices.dra import ClaimNotPrepared, DraManager
from sampan.kubelet.devices.dra.manager import TYPE
from sampan.kubelet.plugin_registry import PluginRegistry
from sampan.machinery.client import Client, PatchType
from sampan.machinery.clock import Clock, VirtualClock
from sampan.testing import Cluster
from tests.eventually import eventually
from tests.kubelet.devices.dra_driver import NAME, BoatDriver


class Scene:
    def __init__(self, cluster: Cluster, root: Path) -> None:
        self.cluster, self.root, self.client = cluster, root, cluster.client
        self.looked_at: list[str] = []
        self.news = asyncio.Event()

    @asynccontextmanager
    async def managing(self, *, clock: Clock | None = None) -> AsyncIterator[DraManager]:
        clock = clock or self.cluster.clock
        user = UserInfo("system:node:n", groups=("system:nodes", "system:authenticated"))
        client = Client(transport=self.cluster.assembly.transport.as_user(user), clock=clock, component="kubelet")
        dynamic = DraManager(
            root=self.root, node_name="n", client=client, clock=clock, look_at=lambda uid: self._look_at(uid)
        )
        registry = PluginRegistry(directory=self.root / "r", handlers={TYPE: dynamic}, clock=clock)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in (dynamic.run(), registry.run())]
            yield dynamic
            for task in tasks:
                task.cancel()

    @asynccontextmanager
    async def registered(self, driver: BoatDriver) -> AsyncIterator[DraManager]:
        driver.registered.clear()
        async with self.managing() as dynamic, driver.listen(self.root / "r"):
            async with asyncio.timeout(60):
                await driver.registered.wait()
            yield dynamic

    def _look_at(self, uid: str) -> None:
        self.looked_at.append(uid)
        self.news.set()

    async def claim(self, name: str, *pods: Pod, is_allocated: bool = True) -> ResourceClaim:
        request = {"name": "one", "exactly": {"deviceClassName": "boats"}}
        value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}
        claims = self.client.of(ResourceClaim)
        await claims.create(json.from_value(value, ResourceClaim))
        return await self.reserve(name, *pods, is_allocated=is_allocated)

    async def reserve(self, name: str, *pods: Pod, is_allocated: bool = True) -> ResourceClaim:
        result = {"request": "one", "driver": NAME, "pool": "harbour", "device": "boat"}
        users = [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid} for pod in pods]
        status: dict[str, Any] = {"reservedFor": users}
        if is_allocated:
            status["allocation"] = {"devices": {"results": [result]}}
        return await self.client.of(ResourceClaim).patch(
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
        return await self.client.of(Pod).create(json.from_value(value, Pod))


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory(prefix="sd") as directory:  # a socket's path must be short
            async with asyncio.timeout(60), Cluster(components=["apiserver"]) as cluster:
                account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
                await cluster.client.of(ServiceAccount).create(account)
                await cluster.client.of(Node).create(Node(metadata=ObjectMeta(name="n")))
                await scenario(Scene(cluster, Path(directory)))

    asyncio.run(main())


async def prepare(dynamic: DraManager, pod: Pod) -> None:
    """Once the API server knows that the node may read the claim, which it is told beside."""

    async def is_prepared() -> bool:
        try:
            await dynamic.prepare(pod)
        except ClaimNotPrepared as error:
            if "forbidden" not in str(error):
                raise
            return False
        return True

    await eventually(is_prepared)


def first(pod: Pod) -> Container:
    return (pod.spec.containers or [])[0]


@pytest.mark.parametrize("version", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
def test_prepared_given_and_given_back(version: str) -> None:
    async def scenario(scene: Scene) -> None:
        driver = BoatDriver(versions=(version,))
        pods = [await scene.pod(name) for name in ("one", "two")]
        await scene.claim("c", *pods)
        async with scene.registered(driver) as dynamic:
            assert driver.status.plugin_registered
            for pod in (pods[0], pods[0], pods[1]):
                await prepare(dynamic, pod)
            assert driver.calls == [("prepare", ["c"])]
            assert dynamic.run_options(pods[0], first(pods[0])).cdi_devices == ["example.com/boat=boat"]
            assert dynamic.run_options(pods[0], (pods[0].spec.containers or [])[1]).cdi_devices == []
            await dynamic.unprepare(pods[0].metadata.uid)
            assert len(driver.calls) == 1
            await dynamic.unprepare(pods[1].metadata.uid)
            assert driver.calls[1:] == [("unprepare", ["c"])]
            await dynamic.unprepare(pods[1].metadata.uid)
            assert len(driver.calls) == 2

    play(scenario)


def test_a_container_gets_what_is_for_its_request() -> None:
    async def scenario(scene: Scene) -> None:
        pod = await scene.pod("p", request="one")
        await scene.claim("c", pod)
        async with scene.registered(BoatDriver(requests=("one",))) as dynamic:
            await prepare(dynamic, pod)
            assert dynamic.run_options(pod, first(pod)).cdi_devices == ["example.com/boat=boat"]
        async with scene.registered(BoatDriver(requests=("another",))) as dynamic:
            await prepare(dynamic, pod)
            assert dynamic.run_options(pod, first(pod)).cdi_devices == []

    play(scenario)


def test_errors_are_reported() -> None:
    async def scenario(scene: Scene) -> None:
        driver, pod = BoatDriver(), await scene.pod("p")

        async def failure(dynamic: DraManager) -> str:
            with pytest.raises(ClaimNotPrepared) as fault:
                await prepare(dynamic, pod)
            return str(fault.value).removeprefix("prepare dynamic resources: ")

        async with scene.managing() as dynamic:
            assert await failure(dynamic) == 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
            claim = await scene.claim("c", is_allocated=False)
            message = f"pod p ({pod.metadata.uid}) is not allowed to use ResourceClaim c ({claim.metadata.uid})"
            assert await failure(dynamic) == message
            await scene.reserve("c", pod)
            assert await failure(dynamic) == f"DRA driver {NAME} is not registered"
        async with scene.registered(driver) as dynamic:
            driver.fault = "the boat is full"
            message = "NodePrepareResources failed for ResourceClaim c: the boat is full"
            assert await failure(dynamic) == message
            driver.fault = "rpc"
            assert await failure(dynamic) == "NodePrepareResources: rpc error: code = Internal desc = no boats"
            driver.fault = ""
            await prepare(dynamic, pod)
            driver.fault = "still on the water"
            with pytest.raises(ClaimNotPrepared) as fault:
                await dynamic.unprepare(pod.metadata.uid)
            message = "NodeUnprepareResources failed for ResourceClaim c: still on the water"
            assert str(fault.value) == f"unprepare dynamic resources: {message}"

    play(scenario)


def test_a_kubelet_that_comes_back_prepares_anew_and_gives_back_what_nobody_uses() -> None:
    async def scenario(scene: Scene) -> None:
        driver, pod = BoatDriver(), await scene.pod("p")
        await scene.claim("c", pod)
        async with scene.registered(driver) as dynamic:
            await prepare(dynamic, pod)
        async with scene.registered(driver) as dynamic:
            assert dynamic.run_options(pod, first(pod)).cdi_devices == ["example.com/boat=boat"]
            await prepare(dynamic, pod)
            assert driver.calls == [("prepare", ["c"])] * 2
        async with scene.registered(driver) as dynamic:
            await dynamic.keep_only([pod.metadata.uid])
            assert len(driver.calls) == 2
            await dynamic.keep_only([])
            assert driver.calls[2:] == [("unprepare", ["c"])]

    play(scenario)


def test_how_devices_are() -> None:
    async def scenario(scene: Scene) -> None:
        driver, pod = BoatDriver(health=[]), await scene.pod("p")
        await scene.claim("c", pod)
        async with scene.registered(driver) as dynamic:
            await prepare(dynamic, pod)

            def reported() -> list[tuple[str, str, str, str | None]]:
                statuses = dynamic.statuses(pod, first(pod))
                return [
                    (resource_status.name, status.resourceID, status.health, status.message)
                    for resource_status in statuses
                    for status in resource_status.resources
                ]

            assert reported() == [("claim:boat", "example.com/boat=boat", "Unknown", None)]
            driver.health = [("boat", 2, "it leaks")]
            driver.changed.set()
            async with asyncio.timeout(60):
                await scene.news.wait()
            assert scene.looked_at == [pod.metadata.uid]
            assert reported() == [("claim:boat", "example.com/boat=boat", "Unhealthy", "it leaks")]

    play(scenario)


def test_a_driver_of_another_time() -> None:
    async def scenario(scene: Scene) -> None:
        driver = BoatDriver(versions=("v7.DRAPlugin",))
        async with scene.registered(driver):
            assert not driver.status.plugin_registered
            services = '["v1.DRAPlugin" "v1beta1.DRAPlugin"]'
            message = 'none of services supported by the plugin (["v7.DRAPlugin"]) are supported by the kubelet'
            start = "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA"
            assert (
                driver.status.error
                == f"{start} driver plugin {NAME} at endpoint {scene.root}/r/b.sock: {message} ({services})"
            )

    play(scenario)


def test_what_a_driver_has_published_goes_with_it() -> None:
    async def scenario(scene: Scene) -> None:
        clock, driver, slices = VirtualClock(), BoatDriver(), scene.client.of(ResourceSlice)

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

        async def gone() -> None:
            await eventually(has_no_slices, step=lambda: clock.advance(0.5))

        await publish("before")
        async with scene.managing(clock=clock):
            await gone()
            async with driver.listen(scene.root / "r"):
                await eventually(driver.registered.is_set, step=lambda: clock.advance(1))
                await publish("now")
                await clock.advance(100)
                assert len((await slices.list()).items or ()) == 1
            await clock.advance(20)
            assert len((await slices.list()).items or ()) == 1
            await gone()

    play(scenario)
