"""Write and read the file of a snapshot: a tar archive with a manifest first and the checksums of all entries last."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from sampan.api import limits
from sampan.api.codec.errors import JSON_ERRORS
from sampan.cluster.snapshot.data_copy import blob_files, key_files
from sampan.cluster.snapshot.manifest import (
    CHECKSUMS,
    CHECKSUMS_BYTES,
    DOCUMENT_BYTES,
    FLAGS,
    IMAGE_TABLE,
    MANIFEST,
    MAX_VOLUME_ENTRIES,
    STORE,
    VOLUMES,
    SnapshotError,
    SnapshotManifest,
    decode_manifest,
    digest_in_name,
    is_allowed_file,
    is_in_volume,
)
from sampan.host.linux.directory_descriptors import open_directory
from sampan.host.linux.directory_trees import Step, TreeEntry, traverse_tree
from sampan.runtimes.images.manifests import BadImage
from sampan.runtimes.images.tar_reader import DIRECTORY, REGULAR, TarEntry, TarReader
from sampan.runtimes.safe_paths import RootDirectory, UnsafePath, open_file, opened_root

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_ERRNOS = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL})
"""Errors that the name of an entry causes; all other errors are those of the machine."""


# -- write -----------------------------------------------------------------------------------------------------------


def write_archive(
    stream: IO[bytes],
    manifest: SnapshotManifest,
    *,
    store: Path,
    directory: Path,
    has_images: bool = True,
    has_volumes: bool = True,
) -> None:
    """Write a snapshot of the cluster in a data directory, with a copy of its store. The manifest already contains the
    number of entries of volumes that are left out, which `count_skipped` returns."""
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        archive = _ArchiveWriter(tar)
        archive.add_content(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        archive.add_file(STORE, store, is_private=True)
        if (directory / FLAGS).exists():
            archive.add_file(FLAGS, directory / FLAGS, is_private=True)
        for path in key_files(directory / "pki"):
            archive.add_file(f"pki/{path.name}", path, is_private=True)
        if has_images and (directory / IMAGE_TABLE).exists():
            archive.add_file(IMAGE_TABLE, directory / IMAGE_TABLE, is_private=True)
            for path in blob_files(directory / "images"):
                archive.add_file(f"images/blobs/sha256/{path.name}", path, is_private=True)
        if has_volumes:
            archive.add_volumes(directory / VOLUMES)
        archive.add_content(CHECKSUMS, msgspec.json.encode(archive.checksums))


def count_skipped(volumes: Path) -> int:
    """Return the number of entries of volumes that a snapshot cannot have: those that are neither files nor
    directories, those whose names are not UTF-8, and those that no reader of the archive would accept, because their
    paths are too long or too deep."""
    return sum(path is None for path, _ in _volume_entries(volumes)) if volumes.is_dir() else 0


def _volume_entries(volumes: Path) -> Iterator[tuple[str | None, TreeEntry]]:
    """Yield the entries of all volumes with their paths in the archive, which are None for entries that the snapshot
    cannot have."""
    count = 0
    for entry in traverse_tree(volumes, is_entered=lambda entry: _archive_path(entry) is not None):
        if entry.step is Step.ENTRY:
            path = _archive_path(entry) if count < MAX_VOLUME_ENTRIES else None
            count += 1
            yield path, entry


def _archive_path(entry: TreeEntry) -> str | None:
    if not (entry.is_directory or entry.is_file) or not _is_text(entry.name):
        return None
    path = "/".join((VOLUMES, *entry.names, entry.name))
    is_short = len(path.encode()) <= limits.IMAGE_PATH_BYTES and path.count("/") < limits.IMAGE_PATH_DEPTH
    return path if is_short else None


def _is_text(name: str) -> bool:
    """Whether a file name is valid UTF-8, as the list of checksums requires."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


class _ArchiveWriter:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.checksums: dict[str, str] = {}

    def add_content(self, name: str, content: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), 0o600
        self.checksums[name] = hashlib.sha256(content).hexdigest()
        self._tar.addfile(info, _ContentReader(content))

    def add_file(self, name: str, path: Path | str, *, dir_fd: int | None = None, is_private: bool = False) -> None:
        with open_file(path, dir_fd=dir_fd) as file:
            status = os.fstat(file.fileno())
            info = _info(name, status)
            info.size = status.st_size
            if is_private:
                info.mode, info.uid, info.gid = 0o600, 0, 0
            reader = _ExactReader(file, status.st_size)
            self._tar.addfile(info, reader)
        self.checksums[name] = reader.digest

    def add_volumes(self, volumes: Path) -> None:
        """Add all directories and files of volumes. Files that a pod removes during the copy are left out."""
        for path, entry in _volume_entries(volumes) if volumes.is_dir() else ():
            if path is None:
                continue
            if entry.is_directory:
                info = _info(path, entry.status)
                info.type = tarfile.DIRTYPE
                self._tar.addfile(info)
            else:
                with suppress(FileNotFoundError, UnsafePath):
                    self.add_file(path, entry.name, dir_fd=entry.directory)


def _info(name: str, status: os.stat_result) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    info.uid, info.gid = status.st_uid, status.st_gid
    return info


class _ExactReader:
    """Reads exactly as many bytes as the header of the entry says, although a pod may write to the file. If the file is
    truncated meanwhile, zeros are read; appended data are left out."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size
        self._hash = hashlib.sha256()

    def read(self, count: int = -1) -> bytes:
        count = self._left if count < 0 else min(count, self._left)
        data = self._file.read(count)
        data += bytes(count - len(data))
        self._left -= count
        self._hash.update(data)
        return data

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class _ContentReader:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, count: int = -1) -> bytes:
        data, self._content = (self._content, b"") if count < 0 else (self._content[:count], self._content[count:])
        return data


# -- read ------------------------------------------------------------------------------------------------------------


def read_manifest(stream: IO[bytes]) -> SnapshotManifest:
    """Return the manifest of a snapshot, without reading the other entries."""
    reader = TarReader(stream)
    try:
        for entry in reader:
            return _read_manifest_entry(reader, entry)[0]
    except BadImage as error:
        raise SnapshotError(f"it is not a snapshot: {error}") from None
    raise SnapshotError("it is not a snapshot: the file is empty")


def read_archive(stream: IO[bytes], target: Path, *, max_bytes: int) -> SnapshotManifest:
    """Unpack a snapshot into an empty directory that only this user can enter, and check it. Raise SnapshotError for an
    entry that does not belong in a snapshot, for more than `max_bytes` of content, and for a file whose checksum is
    wrong. In that case the caller has to remove the directory.
    """
    try:
        with opened_root(target) as root:
            return _Unpacker(root, max_bytes).unpack(TarReader(stream))
    except BadImage as error:
        raise SnapshotError(str(error)) from None


def _read_manifest_entry(reader: TarReader, entry: TarEntry) -> tuple[SnapshotManifest, str]:
    """Return the manifest and its checksum."""
    if entry.name != MANIFEST or entry.kind != REGULAR:
        raise SnapshotError(f"it is not a snapshot: its first entry is not {MANIFEST}")
    content = _content(reader, entry, DOCUMENT_BYTES)
    return decode_manifest(content), hashlib.sha256(content).hexdigest()


def _content(reader: TarReader, entry: TarEntry, maximum: int) -> bytes:
    if entry.size > maximum:
        raise SnapshotError(f"{entry.name} is larger than {maximum} bytes")
    return b"".join(data for _, data in _data(reader, entry))


def _data(reader: TarReader, entry: TarEntry) -> Iterator[tuple[int, bytes]]:
    if entry.extents is not None:
        raise SnapshotError(f"{_quote_name(entry)} is a sparse file, which a snapshot cannot have")
    return reader.pieces()


class _Unpacker:
    def __init__(self, root: RootDirectory, max_bytes: int) -> None:
        self._root, self._max_bytes = root, max_bytes
        self._written = 0
        self._checksums: dict[str, str] = {}
        self._directories: list[TarEntry] = []

    def unpack(self, reader: TarReader) -> SnapshotManifest:
        manifest, expected = None, None
        for entry in reader:
            if manifest is None:
                manifest, self._checksums[MANIFEST] = _read_manifest_entry(reader, entry)
                continue
            if expected is not None:
                raise SnapshotError(f"{_quote_name(entry)} is after {CHECKSUMS}, which must be the last entry")
            if entry.name == CHECKSUMS and entry.kind == REGULAR:
                expected = _decode_checksums(_content(reader, entry, CHECKSUMS_BYTES))
            else:
                self._create(reader, entry)
        if manifest is None:
            raise SnapshotError("it is not a snapshot: the file is empty")
        if expected is None:
            raise SnapshotError(f"it is incomplete: it has no {CHECKSUMS} at its end")
        self._compare(expected)
        for entry in reversed(self._directories):  # set last, as no file can be created in a read-only directory
            self._finish_directory(entry)
        return manifest

    def _finish_directory(self, entry: TarEntry) -> None:
        with self._parent(entry) as (parent, name):
            directory = open_directory(name, dir_fd=parent)
            try:
                _set_attributes(directory, entry, stat.S_ISGID)
            finally:
                os.close(directory)

    @contextmanager
    def _parent(self, entry: TarEntry) -> Iterator[tuple[int, str]]:
        """Open the directory of an entry, which is created if it is missing, and yield it with the entry's name."""
        *parts, name = entry.name.split("/")
        parent = self._root.directory(parts, mode=0o700)
        try:
            yield parent, name
        finally:
            os.close(parent)

    def _create(self, reader: TarReader, entry: TarEntry) -> None:
        try:
            self._add(reader, entry)
        except UnsafePath as error:
            raise SnapshotError(f"{_quote_name(entry)} cannot be created: {error}") from None
        except OSError as error:
            if error.errno not in _NAME_ERRNOS:
                raise
            raise SnapshotError(f"{_quote_name(entry)} cannot be created: {error.strerror}") from None

    def _add(self, reader: TarReader, entry: TarEntry) -> None:
        name = entry.name.rstrip("/")
        if entry.kind == DIRECTORY and is_in_volume(name):
            entry.name = name
            self._make_directory(entry)
        elif entry.kind == REGULAR and is_allowed_file(name) and name == entry.name:
            self._add_file(reader, entry)
        else:
            raise SnapshotError(f"{_quote_name(entry)} does not belong in a snapshot")

    def _make_directory(self, entry: TarEntry) -> None:
        with self._parent(entry) as (parent, name):
            try:
                os.mkdir(name, 0o700, dir_fd=parent)
            except FileExistsError:
                raise SnapshotError(f"{_quote_name(entry)} is in the snapshot twice") from None
        self._directories.append(entry)

    def _add_file(self, reader: TarReader, entry: TarEntry) -> None:
        self._written += entry.size
        if self._written > self._max_bytes:
            raise SnapshotError(f"it has more than {self._max_bytes} bytes of data, which do not fit on the disk")
        with self._parent(entry) as (parent, name):
            try:
                file = os.open(name, _WRITE, 0o600, dir_fd=parent)
            except FileExistsError:
                raise SnapshotError(f"{_quote_name(entry)} is in the snapshot twice") from None
        digest = hashlib.sha256()
        with open(file, "wb") as out:
            for _, data in _data(reader, entry):
                digest.update(data)
                out.write(data)
            out.flush()
            if is_in_volume(entry.name):
                _set_attributes(file, entry, 0)
        self._checksums[entry.name] = digest.hexdigest()
        if (expected := digest_in_name(entry.name)) and expected != digest.hexdigest():
            raise SnapshotError(f"{entry.name} is damaged: its content has another digest")

    def _compare(self, expected: dict[str, str]) -> None:
        missing, strange = expected.keys() - self._checksums.keys(), self._checksums.keys() - expected.keys()
        if missing or strange:
            raise SnapshotError(f"it is damaged: {CHECKSUMS} does not match its entry {min(missing | strange)!r}")
        for name, digest in self._checksums.items():
            if expected[name] != digest:
                raise SnapshotError(f"it is damaged: {name!r} has another checksum than {CHECKSUMS} says")


def _decode_checksums(content: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except JSON_ERRORS as error:
        raise SnapshotError(f"{CHECKSUMS} cannot be read: {error}") from None


def _set_attributes(file: int, entry: TarEntry, special_bits: int) -> None:
    """Set owner, permissions and time of an open file or directory of a volume. Of its special permission bits only
    those in `special_bits` are kept, so that no set-user-ID program comes out of a snapshot."""
    if os.geteuid() == 0:
        with suppress(OSError):  # a user namespace does not map all owners
            os.chown(file, entry.uid, entry.gid)
    os.chmod(file, entry.mode & (0o777 | special_bits))
    os.utime(file, (entry.mtime, entry.mtime))


def _quote_name(entry: TarEntry) -> str:
    return repr(entry.name[:200])
