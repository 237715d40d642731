"""Unpacking layers: each into a folder of its own, ready to be a lower layer of an overlay mount.

A layer comes from strangers. No entry leaves the folder: links on the way to an entry are followed as if the folder
were the root, by this code and not by the kernel. What a layer deletes of those below it is told as overlayfs wants it
(where this user may) and in a list beside the folder.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast

import msgspec

from sampan.runtimes.images.manifests import BadImage
from sampan.runtimes.safe_paths import UnsafePath, inside

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_XATTR = "SCHILY.xattr."
_MOST_BYTES = 64 << 30
"""Of one layer, unpacked: what is packed well enough could fill any disk."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Whiteouts(msgspec.Struct):
    """What a layer takes away from those below it."""

    removed: list[str] = []
    opaque: list[str] = []
    """Folders of which nothing from below shows."""


class LayerStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, diff_id: str) -> Path:
        return self._folder / diff_id.removeprefix("sha256:")

    def has(self, diff_id: str) -> bool:
        return self.path(diff_id).exists()

    def whiteouts(self, diff_id: str) -> Whiteouts:
        return msgspec.json.decode(self._notes(diff_id).read_bytes(), type=Whiteouts)

    def unpack(self, blob: Path, diff_id: str) -> Path:
        """The folder with the layer's files; unpacked if it is not there yet. BadImage if it is not what it claims."""
        target = self.path(diff_id)
        if target.exists():
            return target
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self._folder, prefix=".new-"))
        try:
            scratch.chmod(0o755)
            with _plain(blob) as stream:
                whiteouts = Unpacker(scratch).unpack(cast(IO[bytes], stream))
                while stream.read(1 << 20):
                    pass  # what follows the end of the archive is part of the digest
            if stream.digest != diff_id:
                raise BadImage(f"the layer unpacks to {stream.digest}, not to {diff_id}")
            self._notes(diff_id).write_bytes(msgspec.json.encode(whiteouts))
            _put_in_place(scratch, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return target

    def keep_only(self, wanted: set[str]) -> None:
        names = os.listdir(self._folder) if self._folder.exists() else []
        kept = {diff_id.removeprefix("sha256:") for diff_id in wanted}
        for name in names:
            if name.startswith(".") or name.endswith(".json") or name in kept:
                continue
            shutil.rmtree(self._folder / name, ignore_errors=True)
            (self._folder / f"{name}.json").unlink(missing_ok=True)

    def _notes(self, diff_id: str) -> Path:
        return self._folder / f"{diff_id.removeprefix('sha256:')}.json"


def _put_in_place(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        if not target.exists():  # another process was faster, and has the same
            raise


class Unpacker:
    """Into one folder that nobody else writes to."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_privileged = os.geteuid() == 0
        self._times: dict[Path, float] = {}
        """Of folders, which are given theirs when nothing more comes into them."""
        self._bytes = 0
        self._whiteouts = Whiteouts()

    def unpack(self, stream: IO[bytes]) -> Whiteouts:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    self._entry(archive, member)
        except (tarfile.TarError, EOFError, gzip.BadGzipFile) as fault:
            raise BadImage(f"the layer is no archive: {fault}") from None
        for path, when in self._times.items():
            os.utime(path, (when, when), follow_symlinks=False)
        return self._whiteouts

    def _entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = PurePosixPath("/" + member.name).parts[1:]
        if not parts or ".." in parts:
            if member.isdir() and not parts:
                self._finish(self._root, member)
                return
            raise BadImage(f"the layer has an entry {member.name!r}")
        folder = self._inside(parts[:-1])
        name = parts[-1]
        if name.startswith(_WHITEOUT):
            self._whiteout(folder, name)
            return
        path = folder / name
        self._clear(path, member)
        self._make(archive, member, path)

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        if member.isdir():
            path.mkdir(exist_ok=True)
        elif member.isreg():
            self._file(archive, member, path)
        elif member.issym():
            path.symlink_to(member.linkname)
        elif member.islnk():
            self._hard_link(member, path)
            return
        elif member.isfifo():
            os.mkfifo(path)
        elif member.ischr() or member.isblk():
            if not self._is_privileged:
                return
            kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK
            os.mknod(path, kind | 0o600, os.makedev(member.devmajor, member.devminor))
        else:
            raise BadImage(f"the layer has an entry {member.name!r} of an unknown kind")
        self._finish(path, member)

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        self._bytes += member.size
        if self._bytes > _MOST_BYTES:
            raise BadImage("the layer is too large")
        source = archive.extractfile(member)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o600), "wb") as file:
            if source is not None:
                shutil.copyfileobj(source, file, 1 << 20)

    def _hard_link(self, member: tarfile.TarInfo, path: Path) -> None:
        parts = [part for part in PurePosixPath("/" + member.linkname).parts[1:] if part != ".."]
        if not parts:
            raise BadImage(f"the layer has a link {member.name!r} to nothing")
        source = self._inside(parts[:-1]) / parts[-1]
        try:
            os.link(source, path, follow_symlinks=False)
        except OSError as fault:
            raise BadImage(f"the layer has a link {member.name!r} to {member.linkname!r}: {fault.strerror}") from None

    def _finish(self, path: Path, member: tarfile.TarInfo) -> None:
        """Owner before mode: changing the owner takes setuid away."""
        if self._is_privileged:
            os.chown(path, member.uid, member.gid, follow_symlinks=False)
        if member.issym():
            return
        os.chmod(path, member.mode & 0o7777)
        for key, value in member.pax_headers.items():
            if key.startswith(_XATTR):
                self._attribute(path, key.removeprefix(_XATTR), value)
        if member.isdir():
            self._times[path] = member.mtime
        else:
            os.utime(path, (member.mtime, member.mtime))

    def _attribute(self, path: Path, name: str, value: str) -> None:
        if name.startswith("trusted.overlay."):
            return  # those are this machine's own
        try:
            os.setxattr(path, name, value.encode("utf-8", "surrogateescape"))
        except OSError:
            if self._is_privileged and name == "security.capability":
                raise

    def _whiteout(self, folder: Path, name: str) -> None:
        where = folder.relative_to(self._root)
        if name == _OPAQUE:
            self._whiteouts.opaque.append(str(where))
            if self._is_privileged:
                os.setxattr(folder, "trusted.overlay.opaque", b"y")
            return
        hidden = name.removeprefix(_WHITEOUT)
        if not hidden or hidden in (".", ".."):
            raise BadImage(f"the layer has an entry {name!r}")
        self._whiteouts.removed.append(str(where / hidden))
        path = folder / hidden
        if self._is_privileged and not path.is_symlink() and not path.exists():
            os.mknod(path, stat.S_IFCHR, 0)

    def _clear(self, path: Path, member: tarfile.TarInfo) -> None:
        """What the same layer had there before gives way, unless both are folders."""
        if not path.is_symlink() and path.is_dir():
            if not member.isdir():
                shutil.rmtree(path)
                self._times = {each: when for each, when in self._times.items() if not each.is_relative_to(path)}
        elif path.is_symlink() or path.exists():
            path.unlink()

    def _inside(self, parts: Sequence[str]) -> Path:
        """The folder that these lead to; made where it is missing."""
        try:
            folder = inside(self._root, "/".join(parts))
        except UnsafePath as fault:
            raise BadImage(f"the layer has links that lead in a circle: {fault}") from None
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        try:
            for each in reversed(missing):
                each.mkdir()
                each.chmod(0o755)
        except NotADirectoryError:
            raise BadImage(f"the layer has entries under {folder.name!r}, which is no folder") from None
        if not folder.is_dir():
            raise BadImage(f"the layer has entries under {folder.name!r}, which is no folder")
        return folder


class _Hashed(io.RawIOBase):
    """A stream that knows the digest of what was read of it."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source, self._hash = source, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        data = self._source.read(-1 if size is None else size)
        self._hash.update(data)
        return data

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


@contextmanager
def _plain(blob: Path) -> Iterator[_Hashed]:
    """The layer as an archive, whatever it is packed with."""
    with open(blob, "rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield _Hashed(cast(IO[bytes], unpacked))
        elif magic == _ZSTD:
            yield _Hashed(_unzstd(file))
        else:
            yield _Hashed(file)


def _unzstd(file: IO[bytes]) -> IO[bytes]:
    import zstandard

    return cast(IO[bytes], zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))


def diff_id_of(blob: Path) -> str:
    """The digest of a layer's archive when it is not packed."""
    with _plain(blob) as stream:
        while stream.read(1 << 20):
            pass
    return stream.digest


__all__ = ["LayerStore", "Unpacker", "Whiteouts", "diff_id_of"]
