"""Types of hostPath volumes."""

import socket
from pathlib import Path

import pytest

from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.plugins import host_path


def test_the_type_of_a_host_path_is_checked_or_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dir").mkdir()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "s"))
    server.close()
    for name, type in [("file", "File"), ("dir", "Directory"), ("s", "Socket"), ("new/d", "DirectoryOrCreate")]:
        host_path.check(tmp_path / name, type)
    host_path.check(tmp_path / "new/f", "FileOrCreate")
    host_path.check(Path("/dev/null"), "CharDevice")
    host_path.check(tmp_path / "any", "")
    for name, type, message in [
        ("dir", "File", "is not a file"),
        ("file", "Directory", "is not a directory"),
        ("none", "Directory", "is not a directory"),
        ("none", "File", "is not a file"),
        ("file", "DirectoryOrCreate", "is not a directory"),
        ("file", "Socket", "is not a socket file"),
        ("file", "CharDevice", "is not a character device"),
        ("file", "BlockDevice", "is not a block device"),
        ("file", "Odd", "Odd is an invalid volume type"),
    ]:
        with pytest.raises(VolumeOperationError, match=message):
            host_path.check(tmp_path / name, type)
    assert (tmp_path / "new/f").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "new/d").stat().st_mode & 0o777 == 0o755
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    with pytest.raises(FileExistsError):
        host_path.check(tmp_path / "nowhere", "")


def test_a_volume_that_every_user_may_write_to_is_hidden_from_other_users_of_the_machine(tmp_path: Path) -> None:
    host_path.check(tmp_path / "volumes/pvc-1", "DirectoryOrCreate", 0o777)
    assert (tmp_path / "volumes").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "volumes/pvc-1").stat().st_mode & 0o777 == 0o777
