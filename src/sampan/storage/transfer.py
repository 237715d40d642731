"""Copies of all objects from one store to another: for a migration from SQLite to etcd or back, and for snapshots."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from sampan.storage.backend import Backend, KeyValue, StorageError

_PREFIX = "/"
_EVENTS = "/registry/events/"
_LEASES = "/registry/masterleases/"
"""The prefix of the leases of API servers, which renew them as long as they run. They are not copied, because they are
of no use in another store."""
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
    copied = 0
    async for entries in read_entries(source):
        await write_entries(target, entries, event_ttl_s=event_ttl_s)
        copied += len(entries)
    return copied


async def read_entries(source: Backend) -> AsyncIterator[Sequence[KeyValue]]:
    """Yield the objects of a store page by page, all at the revision that is current when the first page is read."""
    revision, start = await source.current_revision(), ""
    while True:
        page = await source.range(_PREFIX, start=start, limit=_PAGE, revision=revision)
        yield [entry for entry in page.entries if not entry.key.startswith(_LEASES)]
        if not page.remaining:
            return
        start = f"{page.entries[-1].key}\0"


async def write_entries(target: Backend, entries: Sequence[KeyValue], *, event_ttl_s: float) -> None:
    """Write the entries with new revisions. Events expire `event_ttl_s` later."""

    async def put(entry: KeyValue) -> None:
        await target.put(entry.key, entry.value, ttl_s=event_ttl_s if entry.key.startswith(_EVENTS) else None)

    async with asyncio.TaskGroup() as group:
        for entry in entries:
            group.create_task(put(entry))
