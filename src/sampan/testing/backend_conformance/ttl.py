"""Expiry of keys with a TTL. Times are whole seconds, for backends whose leases are."""

import asyncio

from sampan.storage.backend import Backend
from sampan.testing.backend_conformance.subject import BackendSubject, Check, WatchReader

_TTL_S, _SLACK_S = 5, 5.0
"""The TTL of keys, long enough for a busy backend to do everything before the expiry in time, and the maximum delay of
the expiry."""


async def key_expires_after_its_ttl(subject: BackendSubject) -> None:
    key, other = subject.key("events/default/a"), subject.key("events/default/b")
    async with subject.open() as backend:
        start = await backend.put(other, b"stays")
        async with backend.watch(subject.root, after=start) as watch:
            reading = WatchReader(watch, after=start)
            revision = await backend.put(key, b"x", ttl_s=_TTL_S)
            [event] = await reading.events(1)
            assert (event.revision, event.value) == (revision, b"x")
            assert (await backend.get(key))[0] is not None
            passing = asyncio.ensure_future(subject.advance(_TTL_S + _SLACK_S))
            [event] = await reading.events(1)
            await passing
            assert (event.key, event.is_delete) == (key, True)
            assert event.revision > revision
        assert (await backend.get(key))[0] is None
        assert (await backend.get(other))[0] is not None
        assert await backend.put(key, b"again", expected=0) > event.revision


async def rewriting_a_key_replaces_its_ttl(subject: BackendSubject) -> None:
    """A put without a TTL makes the key permanent, and a put with a longer TTL extends its life. A deleted and newly
    created key does not inherit the old TTL."""
    same_ttl, longer, recreated, going = (
        subject.key(f"events/{name}") for name in ("kept", "longer", "recreated", "going")
    )
    async with subject.open() as backend:
        for key in (same_ttl, longer, recreated, going):
            await backend.put(key, b"1", ttl_s=_TTL_S)
        await backend.put(same_ttl, b"2")
        await backend.put(longer, b"2", ttl_s=60)
        await backend.delete(recreated)
        await backend.put(recreated, b"2", expected=0)
        passing = asyncio.ensure_future(subject.advance(_TTL_S + _SLACK_S))
        await _wait_for_deletion(backend, going)
        await passing
        for key in (same_ttl, longer, recreated):
            entry, _ = await backend.get(key)
            assert entry is not None, f"{key} is gone"
            assert entry.value == b"2"


async def many_keys_expire_together(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        await asyncio.gather(*(backend.put(subject.key(f"events/{i}"), b"x", ttl_s=_TTL_S) for i in range(40)))
        async with backend.watch(subject.root, after=start) as watch:
            passing = asyncio.ensure_future(subject.advance(_TTL_S + _SLACK_S))
            events = await WatchReader(watch, after=start).events(80)
            await passing
        deleted = {event.key for event in events if event.is_delete}
        assert deleted == {subject.key(f"events/{i}") for i in range(40)}
        assert await backend.count(subject.root) == 0


async def _wait_for_deletion(backend: Backend, key: str) -> None:
    """Wait until a key is deleted."""
    entry, revision = await backend.get(key)
    if entry is not None:
        async with backend.watch(key, after=revision) as watch:
            assert (await WatchReader(watch, after=revision).events(1))[0].is_delete


CHECKS: tuple[Check, ...] = (key_expires_after_its_ttl, rewriting_a_key_replaces_its_ttl, many_keys_expire_together)
