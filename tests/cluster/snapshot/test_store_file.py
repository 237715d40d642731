"""Copies of stores: consistent, checked, and adapted to another data directory."""

import asyncio
import json
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from sampan.cluster.snapshot import (
    Relocation,
    SnapshotError,
    copy_store_file,
    describe_store,
    relocate_objects,
    remove_tokens,
)
from sampan.cluster.snapshot.store_file import build_store_file
from sampan.host.clock import RealClock
from sampan.storage.backend import KeyValue
from sampan.storage.sqlite import SqliteBackend

PV, NODE = "/registry/persistentvolumes/", "/registry/minions/"


def encode(name: str, **fields: Any) -> bytes:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return json.dumps({"metadata": metadata, **fields}).encode()


def test_copy_of_a_store_in_use_is_consistent(tmp_path: Path) -> None:
    async def run() -> None:
        async with SqliteBackend(path=tmp_path / "state.db", clock=RealClock()) as backend:
            for number in range(20):
                revision = await backend.put(f"/registry/x/{number}", b"{}")
            await asyncio.to_thread(copy_store_file, tmp_path / "state.db", tmp_path / "copy.db")
            await backend.put("/registry/x/later", b"k8s:enc:aescbc:v1:key:")
            summary = describe_store(tmp_path / "copy.db")
            assert (summary.objects, summary.revision, summary.is_encrypted) == (20, revision, False)
            await asyncio.to_thread(copy_store_file, tmp_path / "state.db", tmp_path / "later.db")
            assert describe_store(tmp_path / "later.db").is_encrypted

    asyncio.run(run())
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON live BEGIN DELETE FROM live; END", "that no store has: 't'"),
        ("CREATE VIEW v AS SELECT 1", "that no store has: 'v'"),
        ("CREATE TABLE other (x)", "that no store has: 'other'"),
        ("PRAGMA user_version = 99", "has format 99; this Sampan supports formats up to"),
        ("PRAGMA application_id = 1", "is not a Sampan store"),
    ],
)
def test_database_with_foreign_schema_or_format_is_rejected(tmp_path: Path, statement: str, message: str) -> None:
    path = tmp_path / "state.db"
    build_store_file([], path, event_ttl_s=60)
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(SnapshotError, match=message):
        describe_store(path)


def test_file_that_is_no_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"x" * 5000)
    with pytest.raises(SnapshotError, match="is not a Sampan store"):
        describe_store(tmp_path / "state.db")


@pytest.mark.parametrize("drops_other_nodes", [True, False])
def test_relocation_rewrites_volume_paths_and_pod_cidrs(tmp_path: Path, drops_other_nodes: bool) -> None:
    entries = {
        PV + "a": encode("a", spec={"hostPath": {"path": "/old/volumes/a_ns_data"}}),
        PV + "b": encode("b", spec={"hostPath": {"path": "/old/volumes/../../etc"}}),
        PV + "c": encode("c", spec={"hostPath": {"path": "/mnt/disk"}}),
        PV + "odd": b"[1]",
        PV + "list": encode("list", spec=[1]),
        PV + "secret": b"k8s:enc:aescbc:v1:key:xyz",
        NODE + "node-0": encode("node-0", spec={"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "taints": []}),
        NODE + "far": encode("far", spec={"podCIDR": "10.1.1.0/24"}),
        NODE + "hollow": encode(
            "hollow", spec={"podCIDR": "10.1.2.0/24"}, metadata={"annotations": {"sampan.dev/runtime": "hollow"}}
        ),
    }
    path = tmp_path / "state.db"
    values = [KeyValue(key=key, value=value, revision=0, create_revision=0) for key, value in entries.items()]
    build_store_file(values, path, event_ttl_s=60)
    relocation = Relocation(
        old_volumes="/old/volumes",
        new_volumes="/new/volumes",
        local_nodes=["node-0"],
        drops_other_nodes=drops_other_nodes,
    )
    relocate_objects(path, relocation)
    after = asyncio.run(_read(path))
    assert json.loads(after[PV + "a"])["spec"]["hostPath"]["path"] == "/new/volumes/a_ns_data"
    assert json.loads(after[NODE + "node-0"])["spec"] == {"taints": []}
    assert (NODE + "far" in after) is not drops_other_nodes
    unchanged = (PV + "b", PV + "c", PV + "odd", PV + "list", PV + "secret", NODE + "hollow")
    assert {key: after[key] for key in unchanged} == {key: entries[key] for key in unchanged}


def test_tokens_of_the_original_cluster_are_removed_with_their_history(tmp_path: Path) -> None:
    prefix = "/registry/secrets/kube-system/"
    entries = {
        prefix + "join": encode("join", type="bootstrap.kubernetes.io/token", data={"token-secret": "b2xk"}),
        prefix + "robot": encode(
            "robot", type="kubernetes.io/service-account-token", data={"token": "b2xk", "extra": "eA=="}
        ),
        prefix + "empty": encode("empty", type="kubernetes.io/service-account-token"),
        prefix + "plain": encode("plain", type="Opaque", data={"token": "b2xk"}),
    }
    path = tmp_path / "state.db"
    values = [KeyValue(key=key, value=value, revision=0, create_revision=0) for key, value in entries.items()]
    build_store_file(values, path, event_ttl_s=60)
    remove_tokens(path)
    after = asyncio.run(_read(path))
    assert set(after) == set(entries) - {prefix + "join"}
    assert json.loads(after[prefix + "robot"])["data"] == {"extra": "eA=="}
    assert after[prefix + "plain"] == entries[prefix + "plain"]
    assert after[prefix + "empty"] == entries[prefix + "empty"]
    with sqlite3.connect(path) as connection:
        bodies = [bytes(value) for (value,) in connection.execute("SELECT value FROM bodies") if value is not None]
    connection.close()
    assert [body for body in bodies if b"b2xk" in body] == [entries[prefix + "plain"]]


async def _read(path: Path) -> dict[str, bytes]:
    async with SqliteBackend(path=path, clock=RealClock()) as backend:
        return {entry.key: entry.value for entry in (await backend.range("/")).entries}
