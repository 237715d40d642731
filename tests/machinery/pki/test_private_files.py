"""Private files in a directory that others may write to."""

import os
import stat
from pathlib import Path

import pytest

from sampan.machinery.pki.private_files import write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_private(path, b"secret")
    assert (path.read_bytes(), mode(path), os.listdir(tmp_path)) == (b"secret", 0o600, ["key"])


def test_symbolic_link_at_the_path_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "kubeconfig"
    victim.write_bytes(b"original")
    victim.chmod(0o644)
    path.symlink_to(victim)
    (tmp_path / f".kubeconfig.{os.getpid()}").symlink_to(victim)
    write_private(path, b"secret")
    assert (victim.read_bytes(), mode(victim)) == (b"original", 0o644)
    assert (path.is_symlink(), path.read_bytes(), mode(path)) == (False, b"secret", 0o600)


def test_existing_temporary_file_is_not_used(tmp_path: Path) -> None:
    """Its name used to be predictable: whoever created the file first could read the content."""
    scratch = tmp_path / f".kubeconfig.{os.getpid()}"
    scratch.write_bytes(b"")
    scratch.chmod(0o666)
    with scratch.open("rb") as other_reader:
        write_private(tmp_path / "kubeconfig", b"secret")
        assert other_reader.read() == b""
    assert mode(tmp_path / "kubeconfig") == 0o600


def test_the_same_content_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_private(path, b"secret")
    before = path.stat().st_ino
    write_private(path, b"secret")
    assert path.stat().st_ino == before
    path.chmod(0o640)
    write_private(path, b"secret")
    assert mode(path) == 0o600


def test_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_private(tmp_path / "key", b"secret")
    assert os.listdir(tmp_path) == ["key"]
