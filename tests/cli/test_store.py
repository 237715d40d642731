"""`sampan store copy`."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli
from sampan.host.clock import RealClock
from sampan.storage.etcd import EtcdBackend
from sampan.storage.sqlite import SqliteBackend
from tests.storage.etcd_server import NO_ETCD, find, running_member

KEY = "/registry/configmaps/default/a"


@pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)
def test_store_copy_from_sqlite_to_etcd_and_back(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"

    async def write() -> None:
        async with SqliteBackend(path=old, clock=RealClock()) as backend:
            await backend.put(KEY, b"{}")

    async def read(url: str) -> list[bytes | None]:
        async with EtcdBackend(endpoints=[url]) as etcd, SqliteBackend(path=new, clock=RealClock()) as sqlite:
            return [
                entry.value if entry is not None else None for entry, _ in (await etcd.get(KEY), await sqlite.get(KEY))
            ]

    asyncio.run(write())
    with running_member(tmp_path / "etcd") as member:
        for source, target in ((str(old), member.client_url), (member.client_url, str(new))):
            result = CliRunner().invoke(cli, ["store", "copy", source, target])
            assert (result.exit_code, result.stdout) == (0, f"copied 1 objects from {source} to {target}\n")
        assert asyncio.run(read(member.client_url)) == [b"{}", b"{}"]
        again = CliRunner().invoke(cli, ["store", "copy", str(old), member.client_url])
        assert (again.exit_code, again.stderr) == (1, "Error: the target store is not empty\n")


def test_missing_source_file_is_reported() -> None:
    result = CliRunner().invoke(cli, ["store", "copy", "/none/state.db", "http://127.0.0.1:1"])
    assert (result.exit_code, result.stderr) == (1, "Error: /none/state.db: there is no such file\n")
