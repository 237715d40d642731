"""Files that are replaced as a whole."""

import os
import re
import stat
import threading
from pathlib import Path

import pytest

import sampan
from sampan.host.durable_files import open_new_file, remove_unfinished, write_durably


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced and renamed, in order: `file`, `directory`, `replace`."""
    calls: list[str] = []
    sync, replace = os.fsync, os.replace

    def record_sync(file: int) -> None:
        calls.append("directory" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        sync(file)

    def record_replace(source: str, target: Path) -> None:
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    return calls


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_file_has_the_content_and_mode_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    old = os.umask(0o077)
    try:
        write_durably(tmp_path / "a", b"one", mode=mode)
    finally:
        os.umask(old)
    assert ((tmp_path / "a").read_bytes(), stat.S_IMODE((tmp_path / "a").stat().st_mode)) == (b"one", mode)
    assert os.listdir(tmp_path) == ["a"]


def test_content_is_on_disk_before_the_name_and_the_name_before_the_return(tmp_path: Path, syncs: list[str]) -> None:
    write_durably(tmp_path / "a", b"one", mode=0o600)
    assert syncs == ["file", "replace", "directory"]


def test_unsynced_file_is_replaced_atomically_too(tmp_path: Path, syncs: list[str]) -> None:
    write_durably(tmp_path / "a", b"one", mode=0o600, is_synced=False)
    assert (syncs, (tmp_path / "a").read_bytes()) == (["replace"], b"one")


def test_concurrent_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path, errors, start = tmp_path / "a", [], threading.Barrier(4)
    contents = [bytes([digit]) * 10_000 for digit in b"0123"]

    def write(content: bytes) -> None:
        start.wait()
        try:
            for _ in range(50):
                write_durably(path, content, mode=0o600, is_synced=False)
                assert path.read_bytes() in contents
        except (OSError, AssertionError) as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(tmp_path) == ["a"]


def test_failed_write_leaves_the_old_content_and_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_durably(tmp_path / "a", b"old", mode=0o600)

    def fail(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "a", b"new", mode=0o600)
    assert (os.listdir(tmp_path), (tmp_path / "a").read_bytes()) == (["a"], b"old")


def test_unpublished_file_is_removed(tmp_path: Path) -> None:
    with open_new_file(tmp_path, mode=0o600) as new:
        new.stream.write(b"part")
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == []


def test_relative_path_is_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_durably("a", b"one", mode=0o600)
    assert (tmp_path / "a").read_bytes() == b"one"


def test_only_unfinished_files_are_removed(tmp_path: Path) -> None:
    for name in (".new-0123456789abcdef", ".hidden", "a.new", "a"):
        (tmp_path / name).write_bytes(b"")
    remove_unfinished(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", "a", "a.new"]


_OWN_REPLACEMENT = {
    "host/durable_files.py",
    "storage/sqlite/backend.py",  # syncs the directory of the database
    "storage/sqlite/reserve.py",  # preallocates a file
}


def test_no_other_module_replaces_or_syncs_files() -> None:
    source = Path(sampan.__file__).parent
    calls = re.compile(r"os\.(replace|fsync)\(|NamedTemporaryFile\(|\.with_(suffix|name)\([^\n]*\.(new|tmp)\b")
    modules = {str(file.relative_to(source)) for file in source.rglob("*.py") if calls.search(file.read_text())}
    assert modules - _OWN_REPLACEMENT == set()
