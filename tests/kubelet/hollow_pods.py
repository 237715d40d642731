"""Hollow pods in a cluster on the virtual clock."""

import asyncio
from typing import Any

from sampan.api.types.core_v1 import Event, Pod
from sampan.testing import builders
from tests.controllers.cluster import Cluster, cluster

HOLLOW = "hollow.sampan.dev/"
ACCOUNTS = "serviceaccount-controller"


def pod(name: str = "p", *, node: str = "node-0", **behavior: str) -> Any:
    manifest = builders.pod(name, node=node, namespace="default")
    manifest.metadata.annotations = {HOLLOW + key.replace("_", "-"): text for key, text in behavior.items()}
    return manifest


async def create(c: Cluster, manifest: Pod) -> Any:
    await c.client.for_kind(Pod).create(manifest)
    await c.clock.settle()
    return await get(c, manifest.metadata.name)


async def get(c: Cluster, name: str = "p") -> Any:
    return await c.client.for_kind(Pod).get(name, "default")


async def events(c: Cluster, reason: str) -> list[Event]:
    await c.clock.settle()
    events_ = await c.client.for_kind(Event).list()
    return [event for event in events_.items if event.reason == reason]


def run(test: Any, *nodes: str) -> None:
    async def main() -> None:
        async with cluster() as c, c.running(ACCOUNTS), c.nodes(*(nodes or ("node-0",))):
            await test(c)

    asyncio.run(main())
