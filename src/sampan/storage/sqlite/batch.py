"""The rows that a batch of writes produces, and their insertion into the tables.

Each write sees those before it in its batch; a conflict fails only the write that it concerns.
"""

from msgspec import Struct, field

from sampan.storage.backend import KeyValue, PendingWrite, StorageError, StoreConflict, StoreEvent, is_allowed
from sampan.storage.sqlite.schema import SqliteConnection

Outcome = StoreEvent | StorageError


class BatchRows(Struct):
    """The new rows, and the state of the written keys."""

    revision: int
    outcomes: list[Outcome] = field(default_factory=list)
    revisions: list[tuple[int, str, int, int]] = field(default_factory=list)
    bodies: dict[int, bytes] = field(default_factory=dict)
    live: dict[str, tuple[int, int, float | None] | None] = field(default_factory=dict)
    """Revision, creation and expiry of each written key; None if it is deleted."""


def decide(
    connection: SqliteConnection, plan: BatchRows, write: PendingWrite, refusal: StorageError | None = None
) -> Outcome:
    """Add a write to the plan unless it conflicts; `refusal` is the error for a write that is otherwise valid."""
    current = _live(connection, plan, write.key)
    previous, created = current or (0, 0)
    if not is_allowed(write, previous):
        return StoreConflict(write.key, _entry(connection, plan, write.key, previous, created))
    if refusal is not None:
        return refusal
    plan.revision = revision = plan.revision + 1
    if write.value is None:
        created, plan.live[write.key] = 0, None
    else:
        created = created or revision
        plan.live[write.key] = (revision, created, write.expires)
        plan.bodies[revision] = write.value
    plan.revisions.append((revision, write.key, created, previous))
    return StoreEvent(revision, write.key, write.value, created)


def _live(connection: SqliteConnection, plan: BatchRows, key: str) -> tuple[int, int] | None:
    """Return revision and creation of a key, including the writes planned so far."""
    if key in plan.live:
        planned = plan.live[key]
        return None if planned is None else (planned[0], planned[1])
    row: tuple[int, int] | None = connection.execute(
        "SELECT revision, created FROM live WHERE key = ?", (key,)
    ).fetchone()
    return row


def _entry(connection: SqliteConnection, plan: BatchRows, key: str, revision: int, created: int) -> KeyValue | None:
    if not revision:
        return None
    if (value := plan.bodies.get(revision)) is None:
        [value] = connection.execute("SELECT value FROM bodies WHERE revision = ?", (revision,)).fetchone()
    return KeyValue(key, value, revision, created)


def carry_out(connection: SqliteConnection, plan: BatchRows) -> None:
    if not plan.revisions:
        return
    connection.executemany("INSERT INTO revisions VALUES (?, ?, ?, ?)", plan.revisions)
    if plan.bodies:
        connection.executemany("INSERT INTO bodies VALUES (?, ?)", plan.bodies.items())
        written = [(key, *state) for key, state in plan.live.items() if state is not None]
        connection.executemany("INSERT OR REPLACE INTO live VALUES (?, ?, ?, ?)", written)
    if deleted := [(key,) for key, state in plan.live.items() if state is None]:
        connection.executemany("DELETE FROM live WHERE key = ?", deleted)
