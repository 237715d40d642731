"""Creation and deletion of namespaces for tests."""

from __future__ import annotations

from sampan.api.types.core_v1 import Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cluster.assembly import Assembly, wait_for_default_account
from sampan.machinery.client import DELETED, Client, Selection


async def make(assembly: Assembly, prefix: str) -> str:
    """Create a namespace; wait for its default service account, if there is a controller that creates it."""
    client = assembly.client("test")
    namespace = await client.of(Namespace).create(Namespace(metadata=ObjectMeta(generateName=f"{prefix}-")))
    if assembly.has_controller("serviceaccount-controller"):
        await wait_for_default_account(client, namespace.metadata.name)
    return namespace.metadata.name


async def start_deletion(client: Client, name: str) -> None:
    """Start the deletion of a namespace without waiting for it."""
    await client.of(Namespace).delete(name)


async def wait_for_deletion(client: Client, name: str) -> None:
    """Wait until a namespace is deleted."""
    chosen = Selection(fields=f"metadata.name={name}")
    async with client.of(Namespace).watch(chosen, initial_events=True) as events:
        async for batch in events:
            changes = [event for event in batch if event.object.metadata.name == name]
            if any(event.type == DELETED for event in changes) or (
                not changes and any(event.ends_initial_events for event in batch)
            ):
                return
