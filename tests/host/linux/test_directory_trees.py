"""Directory trees as hostile programs leave them: too deep for paths and recursion, wide, or changed meanwhile."""

import asyncio
import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.host.clock import VirtualClock
from sampan.host.linux import directory_descriptors, directory_trees
from sampan.host.linux.directory_trees import (
    Step,
    TreeEntry,
    TreeMeter,
    TreePosition,
    TreeUsage,
    measure_tree,
    opened_position,
    remove_at,
    remove_tree,
    traverse_tree,
    walk_tree,
)

_DEPTH = 1500


def make_deep(top: Path, depth: int) -> None:
    """Create nested directories as a pod may leave them in its volume, with a file at the bottom."""
    top.mkdir()
    with opened_position(top) as position:
        for _ in range(depth):
            os.mkdir("deeper", dir_fd=position.descriptor)
            position.enter("deeper")
        file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=position.descriptor)
        os.write(file, bytes(1 << 20))
        os.close(file)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """Create a tree whose deepest paths are too long for system calls."""
    top = tmp_path / "upper"
    make_deep(top, _DEPTH)
    yield top
    remove_tree(top)
    assert not top.exists()


@pytest.fixture(params=["openat2", "without openat2"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_not_implemented(directory: int, path: str, flags: int, resolve: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    if request.param == "without openat2":
        monkeypatch.setattr(directory_descriptors, "openat2", raise_not_implemented)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.usefixtures("kernel")
def test_deep_trees_are_walked_and_measured_to_the_bottom(deep: Path) -> None:
    before = open_descriptors()
    names = [entry.name for entry in walk_tree(deep)]
    assert names.count("deeper") == _DEPTH
    assert names[-1] == "file"
    usage = measure_tree(deep)
    assert usage.inodes == _DEPTH + 2
    assert usage.size > 1 << 20
    assert open_descriptors() == before


def test_a_walk_holds_a_bounded_number_of_descriptors(deep: Path) -> None:
    before = open_descriptors()
    assert max(open_descriptors() for _ in walk_tree(deep)) < before + 80


def test_a_walk_that_is_abandoned_closes_its_descriptors(deep: Path) -> None:
    before = open_descriptors()
    walk = walk_tree(deep)
    next(walk)
    del walk
    assert open_descriptors() == before


@pytest.mark.usefixtures("kernel")
def test_removal_of_a_tree_with_many_directories_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_trees, "_BATCH", 3)
    for number in range(20):
        for inner in range(7):
            (tmp_path / f"tree/{number}/{inner}").mkdir(parents=True)
            (tmp_path / f"tree/{number}/{inner}/file").touch()
            (tmp_path / f"tree/{number}/link{inner}").symlink_to("/")
    remove_tree(tmp_path / "tree")
    assert os.listdir(tmp_path) == []


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "top").symlink_to(tmp_path / "outside")
    assert [entry.name for entry in walk_tree(tmp_path / "tree")] == ["link"]
    remove_tree(tmp_path / "tree")
    remove_tree(tmp_path / "top")
    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert (tmp_path / "outside" / "kept").exists()


def test_a_directory_that_becomes_a_link_during_the_walk_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    (tmp_path / "tree" / "trap").mkdir(parents=True)

    def replace(entry: TreeEntry) -> bool:
        (tmp_path / "tree/trap").rmdir()
        (tmp_path / "tree/trap").symlink_to(tmp_path / "outside")
        return True

    assert [entry.name for entry in traverse_tree(tmp_path / "tree", is_entered=replace)] == ["trap"]


def test_a_directory_that_is_moved_during_the_walk_does_not_lead_out_of_the_tree(tmp_path: Path) -> None:
    """The way up from a deep directory is `..`, which a pod can redirect by moving the directory."""
    top, outside = tmp_path / "tree", tmp_path / "outside"
    make_deep(top, 100)
    outside.mkdir()
    (outside / "secret").touch()
    inside = top.joinpath(*["deeper"] * 90)
    steps = []
    for entry in traverse_tree(top):
        steps.append(entry)
        if entry.name == "file":
            (inside / "deeper").rename(outside / "moved")
    assert "secret" not in [entry.name for entry in steps]
    entered = [entry for entry in steps if entry.step is Step.ENTER]
    assert len([entry for entry in steps if entry.step is Step.LEAVE]) == len(entered)
    remove_tree(top)


def test_a_removal_stops_when_a_directory_is_moved_out_of_the_tree(tmp_path: Path) -> None:
    make_deep(tmp_path / "tree", 100)
    with opened_position(tmp_path / "tree") as position:
        for _ in range(100):
            position.enter("deeper")
        (tmp_path / "tree").joinpath(*["deeper"] * 90).rename(tmp_path / "moved")
        for _ in range(10):
            position.leave()
        with pytest.raises(OSError, match="has been moved"):
            position.leave()
        assert len(position.names) < 70
        assert sorted(os.listdir(position.descriptor)) == ["deeper"]


def test_other_file_systems_are_not_entered(tmp_path: Path) -> None:
    with opened_position(Path("/")) as position, pytest.raises(OSError, match="cross-device"):
        position.enter("proc")


def test_removal_of_what_does_not_exist_or_is_no_directory(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
    remove_tree(tmp_path / "nothing/below")
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_removal_is_relative_to_the_open_directory(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    directory = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        remove_at(directory, "b")
    finally:
        os.close(directory)
    assert os.listdir(tmp_path / "a") == []


def test_a_wide_directory_is_not_listed_in_memory(tmp_path: Path) -> None:
    for number in range(20_000):
        os.close(os.open(tmp_path / f"{number:0100}", os.O_WRONLY | os.O_CREAT))
    tracemalloc.start()
    usage = measure_tree(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert usage.inodes == 20_001
    assert peak < 1 << 20


def test_hard_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    once = measure_tree(tmp_path)
    for number in range(10):
        os.link(tmp_path / "file", tmp_path / f"link{number}")
    assert measure_tree(tmp_path).size < once.size + (1 << 19)


def test_readers_share_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, began, calls, may_end = VirtualClock(), threading.Event(), list[Path](), threading.Event()

    def measure(directory: Path) -> TreeUsage:
        calls.append(directory)
        began.set()
        may_end.wait(60)
        asyncio.run(clock.advance(2))
        return TreeUsage(1, 1)

    monkeypatch.setattr(directory_trees, "measure_tree", measure)
    meter, results = TreeMeter(clock=clock), list[TreeUsage]()
    readers = [threading.Thread(target=lambda: results.append(meter.measure(tmp_path))) for _ in range(5)]
    for reader in readers:
        reader.start()
    assert began.wait(60)
    may_end.set()
    for reader in readers:
        reader.join()
    assert results == [TreeUsage(1, 1)] * 5
    assert len(calls) == 1
    asyncio.run(clock.advance(19))
    meter.measure(tmp_path)
    assert len(calls) == 1, "a measurement of 2 seconds is reused for 20"
    asyncio.run(clock.advance(2))
    meter.measure(tmp_path)
    assert len(calls) == 2


def test_position_starts_at_a_directory_that_is_open_for_paths_only(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    descriptor = os.open(tmp_path, getattr(os, "O_PATH", os.O_RDONLY))
    position = TreePosition(descriptor)
    os.close(descriptor)
    position.enter("inner")
    assert position.leave() == "inner"
    assert os.listdir(position.descriptor) == ["inner"]
    position.close()
