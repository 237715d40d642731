"""Content-addressed storage with one file per digest. Files are put in place atomically."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from sampan.api import limits
from sampan.runtimes.images.manifests import BadImage
from sampan.runtimes.images.reference import is_digest

_CHUNK = 1 << 20


class BlobWriter:
    """Writes and hashes content piece by piece, up to a maximum size."""

    def __init__(self, file: IO[bytes], *, most: int) -> None:
        self._file, self._most = file, most
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._most:
            raise BadImage(f"the content is larger than {self._most} bytes, the announced or allowed size")
        self._hash.update(data)
        self._file.write(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class BlobStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, digest: str) -> Path:
        if not is_digest(digest):
            raise BadImage(f"{digest!r} is not a supported digest (sha256:…)")
        return self._directory / "sha256" / digest.removeprefix("sha256:")

    def has(self, digest: str) -> bool:
        return self.path(digest).exists()

    def read(self, digest: str) -> bytes:
        """Return the content of a JSON document. Raise BadImage if it is missing or larger than documents may be."""
        try:
            with open(self.path(digest), "rb") as file:
                data = file.read(limits.IMAGE_DOCUMENT_BYTES + 1)
        except FileNotFoundError:
            raise BadImage(f"content {digest} is missing") from None
        if len(data) > limits.IMAGE_DOCUMENT_BYTES:
            raise BadImage(f"content {digest} is larger than {limits.IMAGE_DOCUMENT_BYTES} bytes")
        return data

    @contextmanager
    def writer(self, expected: str = "", *, size: int | None = None) -> Iterator[BlobWriter]:
        """Store the content that is written within the block, or raise BadImage if its digest is not `expected`."""
        directory = self._directory / "sha256"
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".new-", delete=False) as file:
            try:
                blob = BlobWriter(file.file, most=limits.IMAGE_LAYER_BYTES if size is None else size)
                yield blob
                if expected and blob.digest != expected:
                    raise BadImage(f"the content's digest is {blob.digest}, not {expected}")
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, self.path(blob.digest))
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise

    def put(self, data: bytes, expected: str = "") -> str:
        with self.writer(expected) as writer:
            writer.write(data)
        return writer.digest

    def put_stream(self, stream: BinaryIO, expected: str = "") -> str:
        with self.writer(expected) as writer:
            while data := stream.read(_CHUNK):
                writer.write(data)
        return writer.digest

    def digests(self) -> Iterator[str]:
        directory = self._directory / "sha256"
        names = os.listdir(directory) if directory.exists() else []
        return (f"sha256:{name}" for name in names if not name.startswith("."))

    def keep_only(self, digests: Iterable[str]) -> int:
        """Remove all other content, and return the number of bytes freed."""
        kept, freed = set(digests), 0
        for digest in list(self.digests()):
            if digest not in kept:
                path = self.path(digest)
                freed += path.stat().st_size
                path.unlink(missing_ok=True)
        return freed
