"""Copying all objects of a store to another store."""

import asyncio
from pathlib import Path

import pytest

from sampan.host.clock import VirtualClock
from sampan.storage.memory import MemoryBackend
from sampan.storage.sqlite import SqliteBackend
from sampan.storage.transfer import NotEmpty, copy_store


def test_every_object_is_copied_and_events_expire(tmp_path: Path) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with (
            SqliteBackend(path=tmp_path / "state.db", clock=clock) as source,
            MemoryBackend(clock=clock) as target,
        ):
            values = {f"/registry/pods/default/p{number:04}": b"%d" % number for number in range(1201)}
            values |= {"/registry/secrets/default/s": b"k8s:enc:aescbc:v1:x", "/registry/events/default/e": b"{}"}
            for key, value in values.items():
                await source.put(key, value)
            await source.put("/registry/masterleases/192.0.2.1", b"{}", ttl_s=15)
            await source.delete("/registry/pods/default/p0000")
            del values["/registry/pods/default/p0000"]
            assert await copy_store(source, target, event_ttl_s=3600) == len(values)
            copied = (await target.range("/")).entries
            assert {entry.key: entry.value for entry in copied} == values
            await clock.advance(3601)
            assert await target.count("/registry/events/") == 0
            assert await target.count("/registry/pods/") == 1200

    asyncio.run(main())


def test_a_store_with_objects_is_not_overwritten() -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with MemoryBackend(clock=clock) as source, MemoryBackend(clock=clock) as target:
            await target.put("/registry/pods/default/p", b"{}")
            with pytest.raises(NotEmpty):
                await copy_store(source, target, event_ttl_s=3600)

    asyncio.run(main())
