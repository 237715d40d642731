"""Clients in the server's process receive objects of the watch cache, also those that were replaced in the meantime."""

from collections.abc import Callable
from typing import Any

import pytest

from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.registry.stored_object import StoredObject
from sampan.machinery.client import Client
from sampan.machinery.client.client import ResourceClient
from sampan.machinery.client.codecs import resource_of
from tests.api_server import running_api_server

CONFIG_MAPS = resource_of(ConfigMap)


def whole_objects(client: Client) -> ResourceClient[Any]:
    return client.resource(CONFIG_MAPS)


def only_metadata(client: Client) -> ResourceClient[Any]:
    return client.metadata(CONFIG_MAPS)


@pytest.mark.parametrize("source", [whole_objects, only_metadata])
async def test_initial_events_of_a_watch_are_read_after_their_objects_were_replaced(
    source: Callable[[Client], ResourceClient[Any]],
) -> None:
    async with running_api_server() as server:
        client = server.client()
        maps = client.for_kind(ConfigMap)
        await maps.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"n": "0"}))
        await maps.get("a", "default")
        async with source(client).watch(initial_events=True) as events:
            batch = await anext(events)
            await maps.patch("a", {"data": {"n": "1"}}, "default")
            await maps.get("a", "default")  # decodes the new object; the old one is only in the history
            names = [event.object.metadata.name for event in batch if event.type == "ADDED"]
        assert names == ["a"]


async def test_write_that_began_before_its_object_was_replaced_sees_that_object() -> None:
    async with running_api_server() as server:
        maps = server.client().for_kind(ConfigMap)
        await maps.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"n": "0"}))
        await maps.get("a", "default")
        store = server.registry.open_store(CONFIG_MAPS)
        item = store.cacher.peek("default", "a")
        assert item is not None
        await maps.patch("a", {"data": {"n": "1"}}, "default")
        await maps.get("a", "default")
        assert StoredObject(item, store.codec, is_current=False).obj.data == {"n": "0"}
