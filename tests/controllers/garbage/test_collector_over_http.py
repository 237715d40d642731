"""The garbage collector with an HTTP client, which decodes the same few fields of every object."""

import asyncio

from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.controllers.garbage.collector import GarbageCollectorController
from sampan.controllers.manager import ControllerManager
from sampan.host.clock import RealClock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.testing import Cluster
from tests.eventually import eventually

FOREGROUND, ORPHAN = DeleteParameters(propagation="Foreground"), DeleteParameters(propagation="Orphan")


async def _make(client: Client, name: str, owner: ConfigMap | None = None) -> ConfigMap:
    refs = []
    if owner is not None:
        meta = owner.metadata
        refs = [
            OwnerReference(apiVersion="v1", kind="ConfigMap", name=meta.name, uid=meta.uid, blockOwnerDeletion=True)
        ]
    config_map = ConfigMap(metadata=ObjectMeta(name=name, namespace="default", ownerReferences=refs))
    return await client.for_kind(ConfigMap).create(config_map)


async def _is_gone(client: Client, name: str) -> bool:
    try:
        await client.for_kind(ConfigMap).get(name, "default")
    except errors.NotFound:
        return True
    return False


async def _scenario(client: Client) -> None:
    maps = client.for_kind(ConfigMap)
    owner, other = await _make(client, "owner"), await _make(client, "other")
    await _make(client, "dependent", owner)
    await _make(client, "orphan", other)
    await maps.delete("owner", "default", options=FOREGROUND)
    await maps.delete("other", "default", options=ORPHAN)
    for name in ("owner", "other", "dependent"):
        await eventually(lambda name=name: _is_gone(client, name))  # type: ignore[misc]
    assert (await maps.get("orphan", "default")).metadata.ownerReferences == []


async def test_foreground_and_orphan_deletion() -> None:
    async with (
        Cluster(components=("apiserver",), insecure=True) as cluster,
        HttpTransport(Access(server=cluster.insecure_url)) as transport,
        asyncio.TaskGroup() as group,
    ):
        clock = RealClock()
        client = Client(transport=transport, clock=clock, component="test")
        manager = ControllerManager(
            client_for=lambda name: client, clock=clock, names=(GarbageCollectorController.name,)
        )
        running = group.create_task(manager.run())
        await _scenario(cluster.client)
        running.cancel()
