"""The controller manager over HTTP, beside others and after failures; and the values of --controllers."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import ConfigMap, Namespace, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.http.server import HttpServer, Listener
from sampan.apiserver.server import ApiServer
from sampan.apiserver.server_address import INSECURE_USER
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.manager import ControllerManager, UnknownController, resolve_enabled_names, select_controllers
from sampan.host.clock import RealClock
from sampan.machinery import errors
from sampan.machinery.client import DELETED, Client, Selection
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.control_loop.leader_election import ElectionConfig, LeaderElector
from sampan.storage.memory import MemoryBackend
from tests.controllers.cluster import cluster

ALL = ("*",)


async def wait_for_service_account(client: Client, namespace: str) -> None:
    async with client.for_kind(ServiceAccount).watch(initial_events=True) as events:
        async for batch in events:
            if any(event.key.namespace == namespace for event in batch):
                return


async def delete_and_wait(client: Client, name: str) -> None:
    async with client.for_kind(Namespace).watch(initial_events=True) as events:
        await client.for_kind(Namespace).delete(name)
        async for batch in events:
            if any(event.type == DELETED and event.key.name == name for event in batch):
                return


async def test_manager_with_leader_election_works_over_http() -> None:
    clock = RealClock()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(60))
        backend = await stack.enter_async_context(MemoryBackend(clock=clock))
        config = ServerConfig(secure_port=0, advertise_address="192.0.2.1")
        server = await stack.enter_async_context(ApiServer(config=config, backend=backend, clock=clock))
        accepting = await stack.enter_async_context(asyncio.TaskGroup())
        http = HttpServer(pipeline=server.pipeline, start_task=accepting.create_task)
        (port,) = await http.listen([Listener("127.0.0.1", 0, user=INSECURE_USER)])
        stack.push_async_callback(http.close, 0.01)
        access = Access(server=f"http://127.0.0.1:{port}")
        web = await stack.enter_async_context(HttpTransport(access))
        client = Client(transport=web, clock=clock, component="test")
        manager = ControllerManager(
            client_for=lambda name: client, clock=clock, config=ControllerConfig(root_ca="the bundle")
        )
        elector = LeaderElector(
            client=client, clock=clock, config=ElectionConfig(name="kube-controller-manager", identity="one")
        )
        group = await stack.enter_async_context(asyncio.TaskGroup())
        leading = group.create_task(elector.run(manager.run))
        await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="n")))
        await wait_for_service_account(client, "n")
        await client.for_kind(ConfigMap).create(ConfigMap(metadata=ObjectMeta(name="m", namespace="n")))
        await delete_and_wait(client, "n")
        leading.cancel()
        await asyncio.wait([leading])
        lease = await client.for_kind(Lease).get("kube-controller-manager", "kube-system")
        assert lease.spec.holderIdentity == ""


async def test_manager_does_not_start_with_an_unknown_controller() -> None:
    async with cluster() as c:
        with pytest.raises(UnknownController, match='"boat-controller"'):
            async with c.running("boat-controller"):
                pass


async def test_all_controllers_populate_and_delete_30_namespaces() -> None:
    async with cluster() as c, c.running(*ALL):
        namespaces = c.client.for_kind(Namespace)
        for number in range(30):
            await namespaces.create(Namespace(metadata=ObjectMeta(name=f"n{number}")))
        await c.clock.settle()
        for number in range(0, 30, 2):
            await namespaces.delete(f"n{number}")
        await c.clock.advance(60)
        left = {namespace.metadata.name for namespace in (await namespaces.list()).items}
        kept = {f"n{number}" for number in range(1, 30, 2)}
        assert left == kept | {"default", "kube-system", "kube-public", "kube-node-lease"}
        for kind, name in ((ServiceAccount, "default"), (ConfigMap, "kube-root-ca.crt")):
            objects = (await c.client.for_kind(kind).list(Selection(fields=f"metadata.name={name}"))).items
            assert sorted(obj.metadata.namespace for obj in objects) == sorted(left)


async def test_manager_handles_a_deletion_made_before_its_start() -> None:
    async with cluster() as c:
        await c.client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="going")))
        await c.client.for_kind(ConfigMap).create(ConfigMap(metadata=ObjectMeta(name="m", namespace="going")))
        await c.client.for_kind(Namespace).delete("going")
        async with c.running(*ALL):
            await c.clock.advance(60)
            with pytest.raises(errors.NotFound):
                await c.client.for_kind(Namespace).get("going")


KNOWN = {"a-controller": True, "b-controller": True, "c-controller": False}
ALIASES = {"b": "b-controller"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["*"], ["a-controller", "b-controller"]),
        ([], []),
        (["c-controller"], ["c-controller"]),
        (["b", "a-controller"], ["a-controller", "b-controller"]),
        (["*", "-a-controller"], ["b-controller"]),
        (["*", "-b"], ["a-controller"]),
        (["*", "c-controller"], ["a-controller", "b-controller", "c-controller"]),
        (["a-controller", "-a-controller"], ["a-controller"]),
        (["-a-controller", "a-controller", "*"], ["b-controller"]),
    ],
    ids=lambda value: ",".join(value) or "none",
)
def test_controllers_flag_values(values: list[str], expected: list[str]) -> None:
    assert resolve_enabled_names(values, KNOWN, ALIASES) == expected


@pytest.mark.parametrize("value", ["d-controller", "-d-controller"])
def test_unknown_name_in_the_controllers_flag_is_rejected(value: str) -> None:
    with pytest.raises(UnknownController, match='"d-controller" is not in the list of known controllers'):
        resolve_enabled_names(["*", value], KNOWN, ALIASES)


def test_controllers_are_selected_by_name_alias_and_wildcard() -> None:
    golden = ["serviceaccount-controller", "namespace-controller", "root-ca-certificate-publisher-controller"]
    assert sorted(select_controllers(golden)) == sorted(golden)
    assert set(golden) <= set(select_controllers(["*"]))
    assert select_controllers(["namespace"]) == ["namespace-controller"]
