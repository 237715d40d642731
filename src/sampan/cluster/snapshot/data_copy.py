"""Copy keys, images and volumes of a cluster into the data directory of its fork.

Content of images never changes, so that both clusters share it by hard links. Files of volumes share their blocks where
the file system can clone files, and are copied otherwise.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from sampan.host.linux.directory_trees import Step, TreeEntry, opened_position, remove_tree, traverse_tree
from sampan.runtimes.images import ImageStore

_CLONE = 0x40049409
"""FICLONE of ioctl_ficlone(2)."""
_UNFINISHED_LAYER = ".new-"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_keys(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for path in key_files(source):
        _copy_file(path, target / path.name, 0o600)


def key_files(directory: Path) -> list[Path]:
    """Return the files with the keys and certificates of a cluster."""
    return sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith("."))


def copy_images(source: Path, target: Path) -> list[str]:
    """Link the images of a cluster into another directory, and return their names. Unpacked layers are linked too. If
    the file system refuses that, they are unpacked again when a container needs them."""
    if not (source / "images.json").exists():
        return []
    target.mkdir(mode=0o711)
    _copy_file(source / "images.json", target / "images.json", 0o600)
    images = ImageStore(target)
    for digest in _blobs(source):
        path = images.blobs.path(f"sha256:{digest}")
        path.parent.mkdir(parents=True, exist_ok=True)
        _link_or_copy(source / "blobs/sha256" / digest, path)
    if (source / "layers").is_dir() and not _link_tree(source / "layers", target / "layers"):
        remove_tree(target / "layers")
    return image_names(target)


def image_names(directory: Path) -> list[str]:
    return sorted(name for image in ImageStore(directory).list() for name in image.names or [image.id])


def _blobs(images: Path) -> Iterator[str]:
    directory = images / "blobs/sha256"
    if directory.is_dir():
        yield from (entry.name for entry in os.scandir(directory) if not entry.name.startswith("."))


def blob_files(images: Path) -> list[Path]:
    """Return the files with the content of the images."""
    return [images / "blobs/sha256" / name for name in sorted(_blobs(images))]


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        _copy_file(source, target, 0o600)


def _link_tree(source: Path, target: Path) -> bool:
    """Link all files below a directory into a copy of its directory tree. Return False if a file cannot be linked."""
    try:
        _copy_tree(source, target, _link, is_entered=_is_finished, has_attributes=True)
    except OSError:
        return False
    return True


def _is_finished(entry: TreeEntry) -> bool:
    """Whether the directory is not that of a layer that is being unpacked."""
    return not entry.name.startswith(_UNFINISHED_LAYER)


def _link(entry: TreeEntry, directory: int) -> None:
    os.link(entry.name, entry.name, src_dir_fd=entry.directory, dst_dir_fd=directory, follow_symlinks=False)


def copy_volumes(source: Path, target: Path) -> list[str]:
    """Copy the volumes of a cluster, and return their names. Sockets, pipes and devices are left out."""
    if not source.is_dir():
        return []
    _copy_tree(source, target, _copy_entry)
    return sorted(os.listdir(target))


def _copy_entry(entry: TreeEntry, directory: int) -> None:
    with suppress(FileNotFoundError):  # pods may remove files meanwhile
        if stat.S_ISLNK(entry.status.st_mode):
            os.symlink(os.readlink(entry.name, dir_fd=entry.directory), entry.name, dir_fd=directory)
        elif entry.is_file:
            _copy_file(entry.name, entry.name, None, source_fd=entry.directory, target_fd=directory)


def _copy_tree(
    source: Path,
    target: Path,
    copy: Callable[[TreeEntry, int], None],
    *,
    is_entered: Callable[[TreeEntry], bool] = lambda entry: True,
    has_attributes: bool = False,
) -> None:
    """Copy a directory tree with owners, permissions and times of its directories, and with their extended attributes
    if `has_attributes` is true. `copy` copies an entry that is not a directory into an open directory."""
    target.mkdir(mode=0o700)
    with opened_position(target) as place:
        for entry in traverse_tree(source, is_entered=is_entered):
            if entry.step is Step.ENTER:
                place.enter(entry.name)
                if has_attributes:
                    _copy_xattrs(entry.directory, place.descriptor)
            elif entry.step is Step.LEAVE:
                _set_attributes(place.descriptor, entry.status)
                place.leave()
            elif not entry.is_directory:
                copy(entry, place.descriptor)
            elif is_entered(entry):
                os.mkdir(entry.name, 0o700, dir_fd=place.descriptor)
        _set_attributes(place.descriptor, os.lstat(source))


def _copy_xattrs(source: int, target: int) -> None:
    for name in os.listxattr(source):
        os.setxattr(target, name, os.getxattr(source, name))


def _copy_file(
    source: Path | str,
    target: Path | str,
    mode: int | None,
    *,
    source_fd: int | None = None,
    target_fd: int | None = None,
) -> None:
    """Copy a regular file. If `mode` is None, its owner, permissions and times are copied too."""
    old = os.open(source, _READ, dir_fd=source_fd)
    try:
        new = os.open(target, _WRITE, 0o600 if mode is None else mode, dir_fd=target_fd)
        try:
            try:
                fcntl.ioctl(new, _CLONE, old)
            except OSError:
                with open(old, "rb", closefd=False) as reader, open(new, "wb", closefd=False) as writer:
                    shutil.copyfileobj(reader, writer, 1 << 20)
            if mode is None:
                _set_attributes(new, os.fstat(old))
        finally:
            os.close(new)
    finally:
        os.close(old)


def _set_attributes(target: int, status: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
