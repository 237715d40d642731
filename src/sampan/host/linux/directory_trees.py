"""Walk, measure and remove directory trees with untrusted content, such as volumes and the layers of containers.

Each step starts from an open directory, never from a path, so that trees may be of any depth, and so that a concurrent
writer cannot redirect a step to files outside of the tree. Symbolic links are not followed, and other mounted file
systems are not entered. Nothing recurses, and the number of open descriptors is bounded.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from sampan.host.bounded_cache import ExpiringCache
from sampan.host.clock import Clock
from sampan.host.linux.directory_descriptors import open_directory, open_subdirectory

_MAX_OPEN: Final = 64
"""The number of ancestors of a directory that are held open. Below them the way up is the entry `..`, which is compared
with the directory that the walk came from."""
_BLOCK: Final = 512
_BATCH: Final = 1000
"""The number of subdirectories whose names are held in memory while a directory is removed."""
_REUSE_FACTOR: Final = 10
"""A measurement is reused for this multiple of the time that it took, so that measuring one directory again and again
takes at most a tenth of a processor."""
_MAX_RESULTS: Final = 10_000


class Step(Enum):
    """What a step of a traversal does."""

    ENTRY = "entry"
    """An entry of the current directory has been read."""
    ENTER = "enter"
    """A directory, which was an entry before, has become the current directory."""
    LEAVE = "leave"
    """The current directory is about to be left."""


class TreeEntry(NamedTuple):
    directory: int
    """The descriptor of the current directory. It is valid until the next step."""
    name: str
    """The name of the entry, or that of the directory that is entered or left."""
    status: os.stat_result
    names: Sequence[str]
    """The names of the directories between the root of the tree and the current directory, with the latter. The list
    changes with the next step."""
    step: Step = Step.ENTRY

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)


class TreePosition:
    """An open directory in a tree, which can be moved down and up."""

    def __init__(self, root: int) -> None:
        """The caller keeps `root` open, and closes it."""
        self._descriptors: list[int | None] = [open_directory(".", dir_fd=root)]
        """The current directory and its ancestors; None for an ancestor that is not held open."""
        self._identities = [_identity(os.fstat(root))]
        self.names: list[str] = []
        """The names of the directories between the root and the current directory, with the latter."""

    @property
    def descriptor(self) -> int:
        descriptor = self._descriptors[-1]
        assert descriptor is not None
        return descriptor

    def enter(self, name: str) -> None:
        """Move to a subdirectory. Raise OSError if it is a link, another file system, or cannot be opened."""
        below = open_subdirectory(self.descriptor, name)
        if len(self._descriptors) > _MAX_OPEN:
            os.close(self.descriptor)
            self._descriptors[-1] = None
        self._descriptors.append(below)
        self._identities.append(_identity(os.fstat(below)))
        self.names.append(name)

    def leave(self) -> str:
        """Move to the parent directory, and return the name of the directory that was left. Raise OSError if that
        directory has been moved elsewhere meanwhile. The position is then at the nearest ancestor that is held open."""
        name, above = self.names[-1], self._descriptors[-2]
        if above is None:
            with suppress(OSError):
                above = open_directory("..", dir_fd=self.descriptor)
            if above is not None and _identity(os.fstat(above)) != self._identities[-2]:
                os.close(above)
                above = None
        self._pop()
        self._descriptors[-1] = above
        if above is None:
            while self._descriptors[-1] is None:
                self._pop()
            raise OSError(errno.ESTALE, "the directory has been moved", name)
        return name

    def close(self) -> None:
        for descriptor in self._descriptors:
            if descriptor is not None:
                os.close(descriptor)
        self._descriptors.clear()

    def _pop(self) -> None:
        descriptor = self._descriptors.pop()
        if descriptor is not None:
            os.close(descriptor)
        self._identities.pop()
        self.names.pop()


@contextmanager
def opened_position(root: Path | int) -> Iterator[TreePosition]:
    """Open a position at the root of a tree, which is a trusted path or an open directory."""
    descriptor = root if isinstance(root, int) else open_directory(root)
    try:
        position = TreePosition(descriptor)
    finally:
        if not isinstance(root, int):
            os.close(descriptor)
    try:
        yield position
    finally:
        position.close()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def walk_tree(root: Path | int) -> Iterator[TreeEntry]:
    """Yield all entries below the directory, each before the entries below it. Directories that cannot be opened are
    yielded but not entered."""
    return (entry for entry in traverse_tree(root) if entry.step is Step.ENTRY)


def traverse_tree(
    root: Path | int, *, is_entered: Callable[[TreeEntry], bool] = lambda entry: True
) -> Iterator[TreeEntry]:
    """Yield all steps of a walk through the directory. Those directories are entered for which `is_entered` is true.
    Only the names of the subdirectories of the directories on the way are in memory. A directory that is moved
    elsewhere during the walk is left early, together with its ancestors that are not held open."""
    with opened_position(root) as position:
        statuses = [os.fstat(position.descriptor)]
        pending = [(yield from _scan(position, is_entered))]
        while True:
            if pending[-1]:
                name = pending[-1].pop()
                try:
                    position.enter(name)
                except OSError:
                    continue
                statuses.append(os.fstat(position.descriptor))
                yield TreeEntry(position.descriptor, name, statuses[-1], position.names, Step.ENTER)
                pending.append((yield from _scan(position, is_entered)))
                continue
            if not position.names:
                return
            yield TreeEntry(position.descriptor, position.names[-1], statuses.pop(), position.names, Step.LEAVE)
            pending.pop()
            with suppress(OSError):
                position.leave()
            while len(pending) > len(position.names) + 1:
                yield TreeEntry(position.descriptor, "", statuses.pop(), position.names, Step.LEAVE)
                pending.pop()


def _scan(position: TreePosition, is_entered: Callable[[TreeEntry], bool]) -> Generator[TreeEntry, None, list[str]]:
    """Yield the entries of the current directory, and return the names of the subdirectories to enter."""
    subdirectories: list[str] = []
    with suppress(OSError), os.scandir(position.descriptor) as children:
        for child in children:
            try:
                status = child.stat(follow_symlinks=False)
            except OSError:
                continue
            entry = TreeEntry(position.descriptor, child.name, status, position.names)
            yield entry
            if entry.is_directory and is_entered(entry):
                subdirectories.append(child.name)
    return subdirectories


# -- remove ----------------------------------------------------------------------------------------------------------


def remove_tree(path: Path) -> None:
    """Remove a directory tree, or a file, at a trusted path. It need not exist. Raise OSError if a part of it cannot be
    removed, for example because another file system is mounted there."""
    try:
        parent = open_directory(path.parent)
    except FileNotFoundError:
        return
    try:
        remove_at(parent, path.name)
    finally:
        os.close(parent)


def remove_at(parent: int, name: str) -> None:
    """Remove the directory tree or the file with this name in an open directory."""
    try:
        top = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        os.unlink(name, dir_fd=parent)
        return
    try:
        with opened_position(top) as position:
            _remove_content(position)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _remove_content(position: TreePosition) -> None:
    pending = [_remove_files(position.descriptor)]
    while True:
        if pending[-1]:
            with suppress(FileNotFoundError):
                position.enter(pending[-1].pop())
                pending.append(_remove_files(position.descriptor))
        elif batch := _remove_files(position.descriptor):
            pending[-1] = batch
        elif position.names:
            pending.pop()
            name = position.leave()
            os.rmdir(name, dir_fd=position.descriptor)
        else:
            return


def _remove_files(directory: int) -> list[str]:
    """Remove all that is not a directory. Return the names of subdirectories, at most `_BATCH` of them: then there may
    be further entries."""
    subdirectories: list[str] = []
    with os.scandir(directory) as children:
        for child in children:
            if child.is_dir(follow_symlinks=False):
                subdirectories.append(child.name)
                if len(subdirectories) == _BATCH:
                    break
            else:
                with suppress(FileNotFoundError):
                    os.unlink(child.name, dir_fd=directory)
    return subdirectories


# -- measure ---------------------------------------------------------------------------------------------------------


class TreeUsage(NamedTuple):
    size: int
    """Bytes on disk."""
    inodes: int


def measure_tree(directory: Path) -> TreeUsage:
    """Return the usage of a directory and of everything below it. Other file systems that are mounted below are
    excluded, and hard links count once."""
    top = os.lstat(directory)
    hard_links: set[int] = set()
    size, inodes = top.st_blocks * _BLOCK, 1
    for entry in walk_tree(directory):
        status = entry.status
        if status.st_dev != top.st_dev or status.st_ino in hard_links:
            continue
        if status.st_nlink > 1 and not entry.is_directory:
            hard_links.add(status.st_ino)
        size, inodes = size + status.st_blocks * _BLOCK, inodes + 1
    return TreeUsage(size, inodes)


class TreeMeter:
    """Measures directories for several readers. Readers that ask for the same directory at the same time share one
    measurement, and a measurement is reused for a multiple of the time that it took."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._results: ExpiringCache[Path, TreeUsage] = ExpiringCache(clock=clock, max_entries=_MAX_RESULTS)
        self._lock = threading.Lock()
        self._running: dict[Path, threading.Lock] = {}
        """A lock for each directory that is being measured."""

    def measure(self, directory: Path) -> TreeUsage:
        """Return the usage of a directory. The call blocks. Raise OSError if it does not exist."""
        with self._lock:
            if (usage := self._results.get(directory)) is not None:
                return usage
            running = self._running.setdefault(directory, threading.Lock())
        with running:
            with self._lock:
                if (usage := self._results.get(directory)) is not None:
                    return usage
            try:
                return self._measure(directory)
            finally:
                with self._lock:
                    self._running.pop(directory, None)

    def _measure(self, directory: Path) -> TreeUsage:
        began = self._clock.monotonic()
        usage = measure_tree(directory)
        with self._lock:
            self._results.keep(directory, usage, _REUSE_FACTOR * (self._clock.monotonic() - began))
        return usage
