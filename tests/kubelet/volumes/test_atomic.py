import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.kubelet.volumes.atomic import FileProjection, write
from sampan.kubelet.volumes.contract import VolumeOperationError

NOW = 1_767_225_600.0


def put(directory: Path, **files: str) -> bool:
    payload = {name.replace("__", "/"): FileProjection(text.encode(), 0o644) for name, text in files.items()}
    return write(directory, payload, now=NOW, set_owner=lambda: None)


def content_of(directory: Path) -> dict[str, str]:
    """Return the files of a volume by path, as a container sees them."""
    content: dict[str, str] = {}
    for parent, _, files in os.walk(directory, followlinks=True):
        inside = os.path.relpath(parent, directory)
        if not inside.startswith(".."):
            content |= {os.path.normpath(f"{inside}/{name}"): Path(parent, name).read_text() for name in files}
    return content


def test_files_are_links_into_a_timestamped_directory(tmp_path: Path) -> None:
    assert put(tmp_path, a="1", dir__b="2", dir__deep__c="3")
    assert content_of(tmp_path) == {"a": "1", "dir/b": "2", "dir/deep/c": "3"}
    assert os.readlink(tmp_path / "a") == "..data/a"
    assert os.readlink(tmp_path / "dir") == "..data/dir"
    stamp = os.readlink(tmp_path / "..data")
    assert re.fullmatch(r"\.\.2026_01_01_00_00_00\.\d+", stamp)
    assert (tmp_path / stamp).stat().st_mode & 0o777 == 0o755


def test_update_is_atomic_and_removes_the_old_directory(tmp_path: Path) -> None:
    put(tmp_path, a="1", b="2")
    before = os.readlink(tmp_path / "..data")
    opened = (tmp_path / "a").open()
    assert put(tmp_path, a="3", c="4")
    assert opened.read() == "1"
    opened.close()
    assert content_of(tmp_path) == {"a": "3", "c": "4"}
    assert not (tmp_path / before).exists()
    assert not os.path.lexists(tmp_path / "b")


def test_unchanged_content_is_not_written(tmp_path: Path) -> None:
    put(tmp_path, a="1")
    before = os.readlink(tmp_path / "..data")
    assert not put(tmp_path, a="1")
    assert os.readlink(tmp_path / "..data") == before


def test_missing_links_are_restored(tmp_path: Path) -> None:
    put(tmp_path, a="1")
    (tmp_path / "a").unlink()
    assert not put(tmp_path, a="1")
    assert (tmp_path / "a").read_text() == "1"


def test_file_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(
            tmp_path,
            {"d/a": FileProjection(b"", 0o666), "s": FileProjection(b"", 0o400)},
            now=NOW,
            set_owner=lambda: None,
        )
    finally:
        os.umask(before)
    assert (tmp_path / "d/a").stat().st_mode & 0o777 == 0o666
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o400
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755


def test_failed_update_keeps_the_old_files(tmp_path: Path) -> None:
    put(tmp_path, a="1")

    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        write(tmp_path, {"a": FileProjection(b"2", 0o644)}, now=NOW, set_owner=fail)
    assert content_of(tmp_path) == {"a": "1"}
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", 'invalid path: must not be empty: ""'),
        ("/a", "invalid path: must be relative path: /a"),
        ("a/../b", "invalid path: must not contain '..': a/../b"),
        ("..a", "invalid path: must not start with '..': ..a"),
        ("x" * 256, "invalid path: filenames must be less than or equal to 255 characters"),
        ("x/" * 3000, "invalid path: must be less than or equal to 4096 characters"),
    ],
)
def test_invalid_paths_are_rejected(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(VolumeOperationError) as fault:
        write(tmp_path, {path: FileProjection(b"", 0o644)}, now=NOW, set_owner=lambda: None)
    assert fault.value.text == message


NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "f/g"])


@given(st.lists(st.dictionaries(NAMES, st.sampled_from(["", "x", "y" * 5000])), min_size=1, max_size=5))
def test_any_sequence_of_payloads_is_written_exactly(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[dict[str, str]]
) -> None:
    directory = tmp_path_factory.mktemp("volume")
    for payload in payloads:
        write(
            directory,
            {name: FileProjection(text.encode(), 0o644) for name, text in payload.items()},
            now=NOW,
            set_owner=lambda: None,
        )
        assert content_of(directory) == payload
        assert sum(name.startswith("..") for name in os.listdir(directory)) == 2


def test_keys_with_paths_deeper_than_recursion_goes_are_written_and_removed(tmp_path: Path) -> None:
    """A config map may name such a path in the items of a volume."""
    volume, path = tmp_path / "volume", "a/" * 1500 + "file"
    volume.mkdir()
    assert write(volume, {path: FileProjection(b"1", 0o644)}, now=NOW, set_owner=lambda: None)
    assert not write(volume, {path: FileProjection(b"1", 0o644)}, now=NOW, set_owner=lambda: None)
    assert write(volume, {"b": FileProjection(b"2", 0o644)}, now=NOW + 1, set_owner=lambda: None)
    assert sorted(os.listdir(volume / "..data")) == ["b"]
    assert len([name for name in os.listdir(volume) if name.startswith("..2026")]) == 1
