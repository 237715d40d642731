"""Unpack layers, each into a directory that can be a lower layer of an overlay mount.

Layers are untrusted. No entry leaves the directory: symbolic links on the path of an entry are resolved as if the
directory were the root (`sampan.runtimes.safe_paths`). Whiteouts are recorded as overlayfs expects them (if this user
may) and in a list beside the directory.

layers/HEX         the files of the layer whose uncompressed archive has the digest sha256:HEX, its diff id
layers/HEX.json    the whiteouts of the layer
layers/.blobs/HEX  the diff id of the layer that the blob sha256:HEX was verified to unpack to
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gzip
import hashlib
import io
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Final, cast

import msgspec

from sampan.api import limits
from sampan.host.durable_files import write_durably
from sampan.host.linux.directory_trees import remove_at, remove_tree
from sampan.host.linux.user_namespace import is_in_user_namespace
from sampan.runtimes.images import tar_reader
from sampan.runtimes.images.manifests import BadImage
from sampan.runtimes.images.reference import is_digest
from sampan.runtimes.images.tar_reader import TarEntry, TarReader
from sampan.runtimes.safe_paths import RootDirectory, UnsafePath, opened_root

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_OPAQUE_ATTRIBUTE, _USER_OPAQUE_ATTRIBUTE = "trusted.overlay.opaque", "user.overlay.opaque"
"""The overlayfs attribute of a directory that hides the directory below it: for root, and for a user namespace."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK: Final = 1 << 20
_MAX_ENTRIES_IN_MEMORY: Final = 100_000
"""The maximum number of whiteouts in a layer, and of directories whose times are restored. Both are kept in memory."""
_MACHINE_ERRORS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Errors that are caused by the machine, not by the layer."""


class Whiteouts(msgspec.Struct):
    """The entries of lower layers that a layer hides."""

    removed: list[str] = []
    opaque: list[str] = []
    """Directories that hide all entries of the lower layers."""


class LayerStore:
    """Unpacked layers by diff id.

    An unpacked layer is used for a blob only if that blob was verified to unpack to it. Otherwise an image
    configuration, which anybody can write, could claim the files of any layer by its diff id. Only the owner can enter
    the store, as layers may contain set-user-ID programs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, diff_id: str) -> Path:
        return self._directory / _hex(diff_id)

    def has(self, diff_id: str) -> bool:
        return self.path(diff_id).is_dir()

    def is_unpacked(self, diff_id: str, *, blob_digest: str) -> bool:
        """Whether the layer is unpacked already and known to belong to the blob."""
        return self.has(diff_id) and self._is_known(blob_digest, diff_id)

    def whiteouts(self, diff_id: str) -> Whiteouts:
        return msgspec.json.decode(self._whiteouts_file(diff_id).read_bytes(), type=Whiteouts)

    def unpack(self, blob: Path, diff_id: str, *, blob_digest: str) -> Path:
        """Return the directory of the layer in `blob`, unpacking it if necessary. Raise BadImage if the blob does not
        unpack to `diff_id`."""
        target = self.path(diff_id)
        if self.is_unpacked(diff_id, blob_digest=blob_digest):
            return target
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        if target.is_dir():
            _verify(diff_id_of(blob), diff_id)
        else:
            self._unpack(blob, diff_id, target)
        self._record_diff_id(blob_digest, diff_id)
        return target

    def _unpack(self, blob: Path, diff_id: str, target: Path) -> None:
        scratch = Path(tempfile.mkdtemp(dir=self._directory, prefix=".new-"))
        try:
            scratch.chmod(0o755)
            with _open_uncompressed(blob) as stream, opened_root(scratch) as root:
                whiteouts = LayerUnpacker(root).unpack(cast(IO[bytes], stream))
                while stream.read(_CHUNK):
                    pass  # data after the end of the archive is part of the digest
                _verify(stream.digest, diff_id)
            _sync_file_system(scratch)
            write_durably(self._whiteouts_file(diff_id), msgspec.json.encode(whiteouts), mode=0o600)
            _put_in_place(scratch, target)
        finally:
            with contextlib.suppress(OSError):
                remove_tree(scratch)

    def keep_only(self, diff_ids: Collection[str], blobs: Collection[str]) -> None:
        """Remove the layers that no image uses, and the notes on blobs that are gone."""
        names = os.listdir(self._directory) if self._directory.exists() else []
        retained = {_hex(diff_id) for diff_id in diff_ids if is_digest(diff_id)}
        for name in names:
            if name.startswith(".") or name.endswith(".json") or name in retained:
                continue
            with contextlib.suppress(OSError):
                remove_tree(self._directory / name)
            (self._directory / f"{name}.json").unlink(missing_ok=True)
        blob_directory = self._directory / ".blobs"
        for name in os.listdir(blob_directory) if blob_directory.exists() else ():
            if f"sha256:{name}" not in blobs and not name.startswith("."):
                (blob_directory / name).unlink(missing_ok=True)

    def _is_known(self, blob_digest: str, diff_id: str) -> bool:
        try:
            return (self._directory / ".blobs" / _hex(blob_digest)).read_text() == diff_id
        except OSError:
            return False

    def _record_diff_id(self, blob_digest: str, diff_id: str) -> None:
        path = self._directory / ".blobs" / _hex(blob_digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, diff_id.encode(), mode=0o600)

    def _whiteouts_file(self, diff_id: str) -> Path:
        return self._directory / f"{_hex(diff_id)}.json"


def _hex(digest: str) -> str:
    """Return the hexadecimal part of a digest, which is used in file names. Raise BadImage for any other text, so that
    it never becomes part of a path."""
    if not is_digest(digest):
        raise BadImage(f"{digest!r} is not a digest (sha256:…)")
    return digest.removeprefix("sha256:")


def _verify(digest: str, diff_id: str) -> None:
    if digest != diff_id:
        raise BadImage(f"the layer unpacks to {digest}, not to {diff_id}")


def _put_in_place(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # another process has put the same layer in place
            raise


def _sync_file_system(directory: Path) -> None:
    """Flush everything unpacked to disk before the directory is renamed, so that after a power failure a layer is
    either complete or absent."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"sync {directory}: {os.strerror(code)}")
    finally:
        os.close(descriptor)


class LayerUnpacker:
    """Unpacks an archive into a directory that is not written to concurrently."""

    def __init__(self, root: RootDirectory) -> None:
        self._root = root
        self._is_privileged = os.geteuid() == 0
        self._is_root = self._is_privileged and not is_in_user_namespace()
        """Whether this process may create devices, and files with any owner."""
        self._times: dict[tuple[str, ...], float] = {}
        """Modification times of directories, which are set at the end, as each new entry changes the time of its
        directory."""
        self._whiteouts = Whiteouts()
        self._parent: tuple[Sequence[str], int] | None = None
        """The open directory of the last entry, which often contains the next entry too."""

    def unpack(self, stream: IO[bytes]) -> Whiteouts:
        reader = TarReader(stream)
        try:
            for entry in reader:
                self._entry(reader, entry)
            self._put_times_back()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadImage(f"the layer is not a tar archive: {error}") from None
        finally:
            self._leave()
        return self._whiteouts

    def _entry(self, reader: TarReader, entry: TarEntry) -> None:
        try:
            self._make_entry(reader, entry)
        except (UnsafePath, RecursionError) as error:
            raise BadImage(f"the layer has an entry {entry.name[:200]!r} that cannot be created: {error}") from None
        except OSError as error:
            if error.errno in _MACHINE_ERRORS or error.errno is None:
                raise
            raise BadImage(
                f"the layer has an entry {entry.name[:200]!r} that cannot be created: {error.strerror}"
            ) from None

    def _make_entry(self, reader: TarReader, entry: TarEntry) -> None:
        parts = [part for part in entry.name.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            if entry.kind == tar_reader.DIRECTORY and not parts:
                self._finish(self._root.fileno(), ".", entry, ())
                return
            raise BadImage(f"the layer has an entry {entry.name[:200]!r}")
        name, parent = parts[-1], self._enter(parts[:-1])
        if name.startswith(_WHITEOUT):
            self._whiteout(parent, name, parts[:-1])
            return
        self._clear(parent, name, entry)
        self._make(reader, entry, parent, parts)

    def _make(self, reader: TarReader, entry: TarEntry, parent: int, parts: Sequence[str]) -> None:
        name, kind = parts[-1], entry.kind
        if kind == tar_reader.DIRECTORY:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
        elif kind == tar_reader.REGULAR:
            _write_file(reader, entry, parent, name)
        elif kind == tar_reader.SYMBOLIC_LINK:
            os.symlink(entry.link_name, name, dir_fd=parent)
        elif kind == tar_reader.HARD_LINK:
            self._hard_link(entry, parent, name)
            return
        elif kind == tar_reader.FIFO:
            os.mkfifo(name, dir_fd=parent)
        elif kind in (tar_reader.CHARACTER_DEVICE, tar_reader.BLOCK_DEVICE):
            if not self._is_root:
                return
            _make_device(entry, parent, name)
        else:
            raise BadImage(f"the layer has an entry {entry.name[:200]!r} of an unknown type")
        self._finish(parent, name, entry, parts)

    def _hard_link(self, entry: TarEntry, parent: int, name: str) -> None:
        parts = [part for part in entry.link_name.split("/") if part not in ("", ".", "..")]
        if not parts:
            raise BadImage(f"the layer has a link {entry.name[:200]!r} without a target")
        source = self._root.directory(parts[:-1])
        try:
            os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(source)

    def _finish(self, parent: int, name: str, entry: TarEntry, parts: Sequence[str]) -> None:
        """Set owner, mode, extended attributes and time. The owner comes first, as chown clears the set-user-ID bit."""
        if self._is_privileged:
            self._set_owner(parent, name, entry)
        if entry.kind == tar_reader.SYMBOLIC_LINK:
            return
        os.chmod(name, entry.mode, dir_fd=parent)
        for key, value in entry.xattrs.items():
            self._attribute(f"/proc/self/fd/{parent}/{name}", key, value)
        if entry.kind != tar_reader.DIRECTORY:
            os.utime(name, (entry.mtime, entry.mtime), dir_fd=parent, follow_symlinks=False)
        elif len(self._times) < _MAX_ENTRIES_IN_MEMORY:
            self._times[tuple(parts)] = entry.mtime

    def _set_owner(self, parent: int, name: str, entry: TarEntry) -> None:
        """Set the owner. An owner that the user namespace of this process lacks becomes root."""
        try:
            os.chown(name, entry.uid, entry.gid, dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            if self._is_root or error.errno != errno.EINVAL:
                raise

    def _attribute(self, path: str, name: str, value: bytes) -> None:
        if name.startswith(("trusted.overlay.", "user.overlay.")) or "\0" in name:
            return  # reserved for the overlayfs markers created here
        try:
            os.setxattr(path, name, value, follow_symlinks=False)
        except OSError:
            if self._is_privileged and name == "security.capability":
                raise

    def _whiteout(self, parent: int, name: str, parts: Sequence[str]) -> None:
        if len(self._whiteouts.removed) + len(self._whiteouts.opaque) >= _MAX_ENTRIES_IN_MEMORY:
            raise BadImage(f"the layer removes more than {_MAX_ENTRIES_IN_MEMORY} files of the layers below it")
        entry_path = _to_valid_text("/".join(parts))
        if name == _OPAQUE:
            self._whiteouts.opaque.append(entry_path or ".")
            with self._ignore_refusals():
                attribute = _OPAQUE_ATTRIBUTE if self._is_root else _USER_OPAQUE_ATTRIBUTE
                os.setxattr(f"/proc/self/fd/{parent}", attribute, b"y")
            return
        hidden = name.removeprefix(_WHITEOUT)
        if not hidden or hidden in (".", ".."):
            raise BadImage(f"the layer has an entry {name!r}")
        self._whiteouts.removed.append(_to_valid_text(f"{entry_path}/{hidden}" if entry_path else hidden))
        with self._ignore_refusals():
            if _kind(parent, hidden) is None:
                os.mknod(hidden, stat.S_IFCHR, 0, dir_fd=parent)

    @contextlib.contextmanager
    def _ignore_refusals(self) -> Iterator[None]:
        """Ignore the error with which a file system refuses the markers of overlayfs to users other than root."""
        try:
            yield
        except OSError:
            if self._is_root:
                raise

    def _clear(self, parent: int, name: str, entry: TarEntry) -> None:
        """Remove an earlier entry of the same layer, unless both entries are directories."""
        kind = _kind(parent, name)
        if kind is None:
            return
        if kind == stat.S_IFDIR:
            if entry.kind == tar_reader.DIRECTORY:
                return
            remove_at(parent, name)
        else:
            os.unlink(name, dir_fd=parent)

    # -- directories -------------------------------------------------------------------------------------------------

    def _enter(self, parts: Sequence[str]) -> int:
        """Return the descriptor of a directory, creating missing directories. It stays open until the next call."""
        if self._parent is not None and self._parent[0] == parts and _is_linked(self._parent[1]):
            return self._parent[1]
        self._leave()
        self._parent = parts, self._root.directory(parts, mode=0o755)
        return self._parent[1]

    def _leave(self) -> None:
        if self._parent is not None:
            _, descriptor = self._parent
            self._parent = None
            os.close(descriptor)

    def _put_times_back(self) -> None:
        for parts, when in self._times.items():
            with contextlib.suppress(OSError, UnsafePath):  # a later entry has replaced the directory
                directory = self._root.directory(parts)
                try:
                    os.utime(f"/proc/self/fd/{directory}", (when, when))
                finally:
                    os.close(directory)


def _write_file(reader: TarReader, entry: TarEntry, parent: int, name: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=parent), "wb", buffering=0) as file:
        for offset, data in reader.pieces():
            if entry.extents is not None:
                file.seek(offset)
            remainder = memoryview(data)
            while remainder:
                remainder = remainder[file.write(remainder) :]
        if entry.extents is not None:
            file.truncate(entry.size)


def _make_device(entry: TarEntry, parent: int, name: str) -> None:
    kind = stat.S_IFCHR if entry.kind == tar_reader.CHARACTER_DEVICE else stat.S_IFBLK
    try:
        device = os.makedev(entry.major, entry.minor)
        os.mknod(name, kind | 0o600, device, dir_fd=parent)
    except OverflowError:
        raise BadImage(f"the layer has a device {entry.name[:200]!r} with a device number out of range") from None


def _kind(parent: int, name: str) -> int | None:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _to_valid_text(name: str) -> str:
    """Return the name as valid text, as file names need not be valid UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def _is_linked(directory: int) -> bool:
    """Whether the open directory still exists in the file system."""
    return os.fstat(directory).st_nlink > 0


class _DigestReader(io.RawIOBase):
    """A stream that computes the digest of what is read. Raise BadImage if it yields more data than is plausible for a
    blob of that size (a decompression bomb)."""

    def __init__(self, source: IO[bytes], packed: int) -> None:
        self._source, self._hash = source, hashlib.sha256()
        free = max(limits.IMAGE_LAYER_FREE_BYTES, packed * limits.IMAGE_LAYER_RATIO)
        self._maximum, self._size = min(free, limits.IMAGE_LAYER_BYTES), 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        try:
            data = self._source.read(-1 if size is None else size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadImage(f"the layer cannot be unpacked: {error}") from None
        self._size += len(data)
        if self._size > self._maximum:
            raise BadImage(
                f"the layer unpacks to more than {self._maximum} bytes, which is too much for its packed size"
            )
        self._hash.update(data)
        return data

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


@contextmanager
def _open_uncompressed(blob: Path) -> Iterator[_DigestReader]:
    """Open the blob as an uncompressed archive."""
    with open(blob, "rb") as file:
        packed = os.fstat(file.fileno()).st_size
        magic = file.read(4)
        file.seek(0)
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield _DigestReader(cast(IO[bytes], unpacked), packed)
        elif magic == _ZSTD:
            yield _DigestReader(unzstd(file), packed)
        else:
            yield _DigestReader(file, packed)


class _ZstdReader:
    """A zstd stream that raises BadImage for errors of the library."""

    def __init__(self, file: IO[bytes]) -> None:
        zstd = zstd_module()
        self._error = (zstd.ZstdError, EOFError)
        self._stream = zstd.ZstdFile(file, options={zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})

    def read(self, size: int = -1) -> bytes:
        try:
            return cast(bytes, self._stream.read(size))
        except self._error as error:
            raise BadImage(f"the layer cannot be unpacked: {error}") from None


_MAX_WINDOW_LOG: Final = 27
"""The maximum window size as a power of two, 128 MiB, and so the memory needed to decompress zstd; it is the default
limit of the zstd program."""


def zstd_module() -> ModuleType:
    """Return the zstd module of the standard library, or its backport for Python before 3.14."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def unzstd(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], _ZstdReader(file))


def diff_id_of(blob: Path) -> str:
    """Return the digest of the layer's uncompressed archive."""
    with _open_uncompressed(blob) as stream:
        while stream.read(_CHUNK):
            pass
    return stream.digest
