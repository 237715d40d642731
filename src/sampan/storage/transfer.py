"""Copying all objects from one store to another, for a move from SQLite to etcd or back."""

import asyncio

from sampan.storage.backend import Backend, KeyValue, StorageError

_PREFIX = "/"
_EVENTS = "/registry/events/"
_LEASES = "/registry/masterleases/"
"""Signs of life of API servers, which are of no use in another store."""
_PAGE = 500


class NotEmpty(StorageError):
    """The target of a copy has objects already."""


async def copy_store(source: Backend, target: Backend, *, event_ttl_s: float) -> int:
    """Copy the current objects and return their number. Raise NotEmpty if the target has any.

    Values are copied as they are, encrypted ones too. Revisions are those of the target, so that objects get other
    resource versions. Events expire `event_ttl_s` after the copy.
    """
    if await target.count(_PREFIX):
        raise NotEmpty("the target store is not empty")

    async def put(entry: KeyValue) -> None:
        await target.put(entry.key, entry.value, ttl_s=event_ttl_s if entry.key.startswith(_EVENTS) else None)

    revision, start, copied = await source.current_revision(), "", 0
    while True:
        page = await source.range(_PREFIX, start=start, limit=_PAGE, revision=revision)
        entries = [entry for entry in page.entries if not entry.key.startswith(_LEASES)]
        async with asyncio.TaskGroup() as group:
            for entry in entries:
                group.create_task(put(entry))
        copied += len(entries)
        if not page.remaining:
            return copied
        start = f"{page.entries[-1].key}\0"
