"""Checks of the file of a store after a crash of any kind."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sampan.host.clock import RealClock
from sampan.storage.backend import KeyValue, StoreEvent
from sampan.storage.sqlite import SqliteBackend


class Acknowledged(NamedTuple):
    """A write that was acknowledged."""

    revision: int
    key: str
    value: bytes | None


def check_file(path: Path, acknowledged: Sequence[Acknowledged], *, at_least: int = 1) -> int:
    """Open the file as the store does, fail if acknowledged writes are lost or changed, and return its revision."""
    compacted = _check_integrity(path)
    revision, state, events = asyncio.run(_contents(path, compacted))
    assert revision >= max([at_least, *(ack.revision for ack in acknowledged)]), "the revision went back"
    assert [event.revision for event in events] == list(range(max(compacted, 1) + 1, revision + 1)), "a gap in the log"
    log = {event.revision: event for event in events}
    _check_log(log, acknowledged, compacted)
    _check_state(state, log, acknowledged, compacted)
    return revision


def _check_integrity(path: Path) -> int:
    """Check the integrity of the database, and return the compacted revision."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        if not tables:  # the crash happened before the first transaction
            return 0
        [(compacted,)] = connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchall()
        bodies = "SELECT count(*) FROM bodies LEFT JOIN revisions USING (revision) WHERE revisions.created IS NULL"
        assert connection.execute(bodies).fetchall() == [(0,)], "values without a revision"
        return int(compacted)
    finally:
        connection.close()


async def _contents(path: Path, compacted: int) -> tuple[int, dict[str, KeyValue], list[StoreEvent]]:
    async with SqliteBackend(path=path, clock=RealClock()) as backend:
        revision = await backend.current_revision()
        page = await backend.range("")
        state = {entry.key: entry for entry in page.entries}
        events: list[StoreEvent] = []
        async with backend.watch("", after=compacted) as watch:
            batches = aiter(watch)
            while (events[-1].revision if events else max(compacted, 1)) < revision:
                events += (await anext(batches)).events
        before = await backend.range("", revision=max(compacted, 1))
        assert _replay({entry.key: entry for entry in before.entries}, events) == state, "log and state differ"
        return revision, state, events


def _replay(state: dict[str, KeyValue], events: Sequence[StoreEvent]) -> dict[str, KeyValue]:
    for event in events:
        if event.value is None:
            del state[event.key]
        else:
            state[event.key] = KeyValue(event.key, event.value, event.revision, event.create_revision)
    return state


def _check_log(log: dict[int, StoreEvent], acknowledged: Sequence[Acknowledged], compacted: int) -> None:
    for ack in acknowledged:
        if ack.revision > compacted:
            event = log.get(ack.revision)
            assert event is not None, f"acknowledged revision {ack.revision} is lost"
            assert (event.key, event.value) == (ack.key, ack.value), f"revision {ack.revision} is another write"


def _check_state(
    state: dict[str, KeyValue], log: dict[int, StoreEvent], acknowledged: Sequence[Acknowledged], compacted: int
) -> None:
    """Check that a key has the value of its last acknowledged write, or of a later write that was not acknowledged."""
    changed = {event.key: event.revision for event in log.values()}
    for ack in {ack.key: ack for ack in acknowledged}.values():
        entry = state.get(ack.key)
        stored = Acknowledged(entry.revision, ack.key, entry.value) if entry else None
        is_as_acknowledged = stored == ack if ack.value is not None else stored is None
        is_written_later = max(changed.get(ack.key, 0), entry.revision if entry else 0, compacted) > ack.revision
        assert is_as_acknowledged or is_written_later, f"{ack.key} is older than acknowledged"
