"""The objects of a cluster as a SQLite file: a consistent copy of a running store, checks, and changes for a new place.

Any store becomes such a file. A SQLite store is copied page by page within one read transaction, with its revisions. A
store in memory or in etcd is read by its API server at one revision, and written here with new revisions.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.api.semantics.secret_types import BOOTSTRAP_TOKEN, SERVICE_ACCOUNT_TOKEN
from sampan.cluster.snapshot.manifest import SnapshotError
from sampan.host.clock import RealClock
from sampan.machinery.hollow import HOLLOW, RUNTIME_ANNOTATION
from sampan.storage.backend import Backend, KeyValue
from sampan.storage.sqlite import SqliteBackend, SqliteConfig
from sampan.storage.sqlite.schema import APPLICATION_ID, STEPS

_BUSY_S = 30.0
_NODES, _VOLUMES, _SECRETS = "/registry/minions/", "/registry/persistentvolumes/", "/registry/secrets/"
_ENCRYPTED = b"k8s:enc:"
_TABLES = frozenset({"revisions", "bodies", "live", "meta"})


class StoreSummary(msgspec.Struct, kw_only=True):
    format: int
    revision: int
    objects: int
    is_encrypted: bool
    """Whether values are encrypted, so that the API server needs the encryption keys of the original cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """The values in objects that differ between the data directory of the original cluster and another one."""

    old_volumes: str
    new_volumes: str
    local_nodes: Collection[str]
    drops_other_nodes: bool
    """Whether to remove nodes of other machines, which belong to the original cluster."""


def copy_store_file(source: Path, target: Path) -> None:
    """Copy a SQLite store at one revision, even while an API server writes to it."""
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log
    except sqlite3.Error as error:
        raise SnapshotError(f"cannot copy {source}: {error}") from None


def describe_store(path: Path) -> StoreSummary:
    """Check that the file is an undamaged store of a known format with nothing but its tables, and describe it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _describe(connection, path.name)
    except sqlite3.Error as error:
        raise SnapshotError(f"{path.name} is not a Sampan store: {error}") from None


def _describe(connection: sqlite3.Connection, name: str) -> StoreSummary:
    connection.execute("PRAGMA trusted_schema = OFF")
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise SnapshotError(f"{name} is not a Sampan store")
    version = _number(connection, "PRAGMA user_version")
    if version > len(STEPS):
        raise SnapshotError(f"{name} has format {version}; this Sampan supports formats up to {len(STEPS)}")
    schema = connection.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
    strange = [name for kind, name, table in schema if kind not in ("table", "index") or table not in _TABLES]
    if strange:
        raise SnapshotError(f"{name} has a table, view or trigger that no store has: {strange[0]!r}")
    if (state := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise SnapshotError(f"{name} is damaged: {state}")
    encrypted = "SELECT count(*) FROM live JOIN bodies USING (revision) WHERE substr(value, 1, 8) = ?"
    return StoreSummary(
        format=version,
        revision=_number(connection, "SELECT coalesce(max(revision), 0) FROM revisions"),
        objects=_number(connection, "SELECT count(*) FROM live"),
        is_encrypted=bool(_number(connection, encrypted, _ENCRYPTED)),
    )


def _number(connection: sqlite3.Connection, sql: str, *parameters: bytes) -> int:
    return int(connection.execute(sql, parameters).fetchone()[0])


def build_store_file(entries: Iterable[KeyValue], target: Path, *, event_ttl_s: float) -> None:
    """Write a SQLite store with these entries, which get new revisions."""
    from sampan.storage.transfer import write_entries

    async def build() -> None:
        async with _open_backend(target) as backend:
            page: list[KeyValue] = []
            for entry in entries:
                page.append(entry)
                if len(page) >= 500:
                    await write_entries(backend, page, event_ttl_s=event_ttl_s)
                    page.clear()
            await write_entries(backend, page, event_ttl_s=event_ttl_s)

    asyncio.run(build())


def relocate_objects(path: Path, relocation: Relocation) -> None:
    """Change the objects that refer to the data directory or the machine of the original cluster: paths of volumes, and
    pod CIDRs of nodes, which the original cluster may use at the same time. Nodes get new pod CIDRs when they register.
    """
    asyncio.run(_relocate(path, relocation))


async def _relocate(path: Path, relocation: Relocation) -> None:
    async with _open_backend(path) as backend:
        async for entry, value in _read_objects(backend, _VOLUMES):
            if _relocate_paths(value, relocation):
                await backend.put(entry.key, msgspec.json.encode(value), expected=entry.revision)
        async for entry, value in _read_objects(backend, _NODES):
            if _is_hollow(value):
                continue
            if relocation.drops_other_nodes and value["metadata"]["name"] not in relocation.local_nodes:
                await backend.delete(entry.key, expected=entry.revision)
            elif _remove_pod_cidrs(value):
                await backend.put(entry.key, msgspec.json.encode(value), expected=entry.revision)


def remove_tokens(path: Path) -> None:
    """Remove the tokens that the original cluster accepts: bootstrap tokens with their secrets, and the tokens of
    service accounts in secrets, which the controller fills again. Their history is compacted."""
    asyncio.run(_remove_tokens(path))


async def _remove_tokens(path: Path) -> None:
    async with _open_backend(path) as backend:
        async for entry, value in _read_objects(backend, _SECRETS):
            if value.get("type") == BOOTSTRAP_TOKEN:
                await backend.delete(entry.key, expected=entry.revision)
            elif value.get("type") == SERVICE_ACCOUNT_TOKEN and isinstance(value.get("data"), dict):
                value["data"].pop("token", None)
                await backend.put(entry.key, msgspec.json.encode(value), expected=entry.revision)
        await backend.compact(await backend.current_revision())


def _open_backend(path: Path) -> SqliteBackend:
    return SqliteBackend(path=path, clock=RealClock(), config=SqliteConfig(compaction_interval_s=0))


async def _read_objects(backend: Backend, prefix: str) -> AsyncIterator[tuple[KeyValue, dict[str, Any]]]:
    """Yield the entries that are JSON objects. Encrypted values are skipped, so they stay as they are."""
    for entry in (await backend.range(prefix)).entries:
        try:
            value = msgspec.json.decode(entry.value, type=dict[str, Any])
        except JSON_ERRORS:
            continue
        if isinstance(value.get("metadata"), dict) and isinstance(value["metadata"].get("name"), str):
            yield entry, value


def _relocate_paths(value: dict[str, Any], relocation: Relocation) -> bool:
    """Change the path of a persistent volume of the default storage class. Return whether the object is one and was
    changed."""
    spec = value.get("spec")
    source = spec.get("hostPath") if isinstance(spec, dict) else None
    path = source.get("path") if isinstance(source, dict) else None
    old = f"{relocation.old_volumes}/"
    if not isinstance(source, dict) or not isinstance(path, str):
        return False
    if not relocation.old_volumes or not path.startswith(old) or ".." in path.split("/"):
        return False
    source["path"] = f"{relocation.new_volumes}/{path.removeprefix(old)}"
    return True


def _is_hollow(value: dict[str, Any]) -> bool:
    annotations = value["metadata"].get("annotations")
    return isinstance(annotations, dict) and annotations.get(RUNTIME_ANNOTATION) == HOLLOW


def _remove_pod_cidrs(value: dict[str, Any]) -> bool:
    """Remove the pod CIDRs of a node. Return whether it had any."""
    spec = value.get("spec")
    if not isinstance(spec, dict) or not ({"podCIDR", "podCIDRs"} & set(spec)):
        return False
    spec.pop("podCIDR", None)
    spec.pop("podCIDRs", None)
    return True
