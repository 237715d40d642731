"""Creating and deleting many pods over HTTP, and waiting until a list has a certain length."""

import asyncio
from collections.abc import Iterable
from typing import Any

import aiohttp

WRITERS = 16
_PODS = "/api/v1/namespaces/default/pods"


async def create(session: aiohttp.ClientSession, pods: Iterable[dict[str, Any]]) -> None:
    left = iter(pods)

    async def writer() -> None:
        for pod in left:
            async with session.post(_PODS, json=pod) as response:
                if response.status != 201:
                    raise RuntimeError(await response.text())

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())


async def until(session: aiohttp.ClientSession, path: str, count: int) -> None:
    """Wait until the list has that many objects, from the count of the remaining ones beside its first object."""
    joined = path + ("&" if "?" in path else "?") + "limit=1"
    while True:
        async with session.get(joined) as response:
            listed = await response.json()
        left = listed["metadata"].get("remainingItemCount")
        seen = len(listed["items"]) + (left or 0)
        if left is None and listed["metadata"].get("continue"):
            seen = await counted(session, path)
        if seen >= count:
            return
        await asyncio.sleep(0.5)


async def counted(session: aiohttp.ClientSession, path: str = _PODS) -> int:
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    async with session.get(path, headers=accept) as response:
        return (await response.read()).count(b'"uid":')


async def remove(session: aiohttp.ClientSession) -> None:
    """Delete all pods and wait until the last is gone."""
    async with session.delete(_PODS) as response:
        response.raise_for_status()
    while True:
        if not await counted(session):
            return
        await asyncio.sleep(0.2)
