"""Config maps and secrets of pods, which are watched while pods refer to them."""

import asyncio

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import ConfigMap, Pod
from sampan.kubelet.objects import ObjectKey, PodObjects
from sampan.machinery.client import PatchType
from sampan.machinery.informer import InformerFactory
from tests.kubelet.node_api_server import node_api_server


def pod(uid: str) -> Pod:
    volume = {"name": "v", "configMap": {"name": "m"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    return json.from_value({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}, Pod)


def config_map(text: str, *, immutable: bool = False) -> ConfigMap:
    meta = {"name": "m", "namespace": "default"}
    return json.from_value({"metadata": meta, "data": {"a": text}, "immutable": immutable}, ConfigMap)


async def read(objects: PodObjects) -> str:
    config_map = await objects.config_map("default", "m")
    return config_map.data["a"] if config_map is not None else ""


@pytest.mark.parametrize("immutable", [False, True])
async def test_immutable_config_map_is_not_watched(immutable: bool) -> None:
    async with asyncio.timeout(60), node_api_server() as cluster:
        maps = cluster.client.for_kind(ConfigMap)
        await maps.create(config_map("1", immutable=immutable))
        async with InformerFactory(client=cluster.client) as informers:
            keys: asyncio.Queue[ObjectKey] = asyncio.Queue()
            objects = PodObjects(informers=informers)
            objects.subscribe(keys.put_nowait)
            objects.follow(pod("u"))
            assert await read(objects) == "1"
            objects.follow(pod("w"))
            await keys.get()
            if immutable:
                await maps.delete("m", "default")
                await maps.create(config_map("2"))
                assert await read(objects) == "1"
                objects.forget("u")
                assert await read(objects) == "1"
                objects.forget("w")
                objects.follow(pod("x"))
            else:
                await maps.patch("m", {"data": {"a": "2"}}, "default", type=PatchType.MERGE)
                assert (await keys.get()).name == "m"
            assert await read(objects) == "2"
