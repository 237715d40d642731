"""A reader for untrusted tar archives.

The standard library's `tarfile` reads extended headers of any size into memory, parses them with regular expressions
that take quadratic time, keeps every entry in memory and recurses for consecutive extended headers. This reader
supports the formats in which layers are distributed (ustar, PAX, GNU with long names and sparse files) in bounded
memory and in time linear in the length of the archive. It raises `BadImage` for any malformed archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import IO, Final

import msgspec

from sampan.api import limits
from sampan.runtimes.images.manifests import BadImage

BLOCK: Final = 512
_PIECE: Final = 1 << 20
REGULAR, HARD_LINK, SYMBOLIC_LINK, CHARACTER_DEVICE, BLOCK_DEVICE, DIRECTORY, FIFO = (
    b"0",
    b"1",
    b"2",
    b"3",
    b"4",
    b"5",
    b"6",
)
_LONG_NAME, _LONG_LINK, _PAX, _SOLARIS_PAX, _GLOBAL_PAX, _GNU_SPARSE = b"L", b"K", b"x", b"X", b"g", b"S"
_EXTENDED: Final = frozenset({_LONG_NAME, _LONG_LINK, _PAX, _SOLARIS_PAX, _GLOBAL_PAX})
_KINDS_WITHOUT_DATA: Final = frozenset({HARD_LINK, SYMBOLIC_LINK, CHARACTER_DEVICE, BLOCK_DEVICE, DIRECTORY, FIFO})
_MAX_EXTENDED_HEADERS: Final = 16
_XATTR: Final = "SCHILY.xattr."
_OCTAL: Final = re.compile(rb"[0-7]*")
_SECONDS: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{0,20})?", re.ASCII)
_LATEST: Final = 1 << 34
"""The year 2514, close to the latest time that common file systems support."""

Extents = Sequence[tuple[int, int]]
"""The parts of a sparse file that have data: offsets and lengths in ascending order."""


class TarEntry(msgspec.Struct):
    name: str
    kind: bytes
    size: int = 0
    """The size of the file including holes."""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime: float = 0
    link_name: str = ""
    major: int = 0
    minor: int = 0
    xattrs: dict[str, bytes] = {}
    extents: Extents | None = None
    """None if the file is not sparse."""
    stored: int = 0
    """The number of data bytes in the archive."""
    offset: int = 0
    """The position of the data in the archive."""


class _PaxHeaders(msgspec.Struct):
    """The values of extended headers, which apply to the next entry."""

    path: str | None = None
    link_path: str | None = None
    values: dict[str, str] = {}
    xattrs: dict[str, bytes] = {}
    sparse: list[int] = []


class TarReader:
    """Iterates over the entries of an archive; `pieces` yields the data of the current entry."""

    def __init__(self, stream: IO[bytes], *, can_seek: bool = False) -> None:
        self._stream, self._can_seek = stream, can_seek
        self._position = 0
        self._left = 0
        """Unread data bytes of the current entry, without the padding of the last block."""
        self._padding = 0
        self._entry: TarEntry | None = None

    def __iter__(self) -> Iterator[TarEntry]:
        count = 0
        while (entry := self._read_entry()) is not None:
            count += 1
            if count > limits.IMAGE_LAYER_ENTRIES:
                raise BadImage(f"the archive has more than {limits.IMAGE_LAYER_ENTRIES} entries")
            yield entry

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield the data of the current entry with its offsets in the file."""
        assert self._entry is not None
        extents = self._entry.extents
        for start, length in extents if extents is not None else ((0, self._entry.size),):
            done = 0
            while done < length:
                data = self._read_exactly(min(length - done, _PIECE))
                self._left -= len(data)
                yield start + done, data
                done += len(data)

    # -- headers -----------------------------------------------------------------------------------------------------

    def _read_entry(self) -> TarEntry | None:
        pax = _PaxHeaders()
        for _ in range(_MAX_EXTENDED_HEADERS + 1):
            self._skip(self._left + self._padding)
            self._left = self._padding = 0
            block = self._header()
            if block is None:
                return None
            kind = block[156:157]
            if kind not in _EXTENDED:
                return self._tar_entry(block, pax)
            content = self._read_extended(_number(block[124:136]))
            if kind == _LONG_NAME:
                pax.path = _text(content)
            elif kind == _LONG_LINK:
                pax.link_path = _text(content)
            elif kind != _GLOBAL_PAX:
                _read_pax(content, pax)
        raise BadImage("the archive has too many extended headers in a row")

    def _header(self) -> bytes | None:
        """Read a header. Return None at the end of the archive, which is a block of zeros or the end of the stream."""
        block = self._stream.read(BLOCK)
        while block and len(block) < BLOCK and (more := self._stream.read(BLOCK - len(block))):
            block += more
        self._position += len(block)
        if not block or not any(block):
            return None
        if len(block) < BLOCK:
            raise BadImage("unexpected end of the archive in a header")
        total = sum(block) - sum(block[148:156]) + 8 * 32
        if _number(block[148:156]) not in (total, total - 256 * sum(byte > 127 for byte in block[:148] + block[156:])):
            raise BadImage("the archive has a header with a wrong checksum")
        return block

    def _read_extended(self, size: int) -> bytes:
        if size > limits.TAR_HEADER_BYTES:
            raise BadImage(f"the archive has an extended header of more than {limits.TAR_HEADER_BYTES} bytes")
        content = self._read_exactly(size)
        self._skip(-size % BLOCK)
        return content

    def _tar_entry(self, block: bytes, pax: _PaxHeaders) -> TarEntry:
        kind, values = block[156:157], pax.values
        entry = TarEntry(
            name=pax.path if pax.path is not None else _name(block),
            kind=REGULAR if kind in (b"\0", b"7") else kind,
            size=_decimal(values, "size", block[124:136]),
            mode=_number(block[100:108]) & 0o7777,
            uid=_id(_decimal(values, "uid", block[108:116])),
            gid=_id(_decimal(values, "gid", block[116:124])),
            mtime=_mtime(values.get("mtime"), block[136:148]),
            link_name=pax.link_path if pax.link_path is not None else _text(block[157:257]),
            xattrs=pax.xattrs,
        )
        if entry.kind in (CHARACTER_DEVICE, BLOCK_DEVICE):
            entry.major, entry.minor = _number(block[329:337]), _number(block[337:345])
        if kind == b"\0" and entry.name.endswith("/"):  # the format before ustar has no kind for directories
            entry.kind = DIRECTORY
        _check_path(entry.name)
        _check_path(entry.link_name)
        if entry.kind in _KINDS_WITHOUT_DATA:
            entry.size = 0
        entry.stored = entry.size
        self._left, self._padding = entry.stored, -entry.stored % BLOCK
        if kind == _GNU_SPARSE:
            self._gnu_sparse(block, entry)
        elif any(key.startswith("GNU.sparse.") for key in values) or pax.sparse:
            self._pax_sparse(pax, entry)
        if max(entry.size, entry.stored) > limits.IMAGE_LAYER_BYTES:
            raise BadImage(f"the archive has a file of more than {limits.IMAGE_LAYER_BYTES} bytes")
        entry.offset = self._position
        self._entry = entry
        return entry

    # -- sparse files ------------------------------------------------------------------------------------------------

    def _gnu_sparse(self, block: bytes, entry: TarEntry) -> None:
        """Read the sparse map of the GNU format, which is in the header and in the blocks after it."""
        numbers, has_more, size = _numbers(block[386:482]), block[482], 0
        entry.kind, entry.size = REGULAR, _number(block[483:495])
        while has_more:
            size += BLOCK
            if size > limits.TAR_HEADER_BYTES:
                raise BadImage(f"the archive has a sparse map of more than {limits.TAR_HEADER_BYTES} bytes")
            more = self._read_exactly(BLOCK)
            numbers += _numbers(more[:504])
            has_more = more[504]
        entry.extents = _extents(numbers, entry)

    def _pax_sparse(self, pax: _PaxHeaders, entry: TarEntry) -> None:
        """Read the sparse map of the PAX formats 0.0 (pairs of records), 0.1 (one record) and 1.0 (before the data)."""
        values, numbers = pax.values, pax.sparse
        if entry.kind != REGULAR:
            raise BadImage(f"the archive has a sparse entry {entry.name!r} that is not a file")
        entry.size = _decimal(values, "GNU.sparse.realsize", b"") or _decimal(values, "GNU.sparse.size", b"")
        if name := values.get("GNU.sparse.name"):
            entry.name = name
            _check_path(entry.name)
        if values.get("GNU.sparse.major") == "1":
            numbers = self._read_sparse_map()
            entry.stored = self._left
        elif text := values.get("GNU.sparse.map"):
            numbers = [_parse_decimal(part) for part in text.split(",")]
        entry.extents = _extents(numbers, entry)

    def _read_sparse_map(self) -> list[int]:
        """Read a map of format 1.0: decimal numbers, one per line, first the number of pairs, then the pairs; padded to
        a full block."""
        data, expected_lines, lines = bytearray(), 0, 0
        while not data or lines < expected_lines:
            if len(data) >= limits.TAR_HEADER_BYTES or self._left < BLOCK:
                raise BadImage("the archive has a sparse map that does not end")
            block = self._read_exactly(BLOCK)
            self._left -= BLOCK
            if not data:
                expected_lines = 2 * _parse_decimal(block.partition(b"\n")[0].decode("latin-1")) + 1
            data += block
            lines += block.count(b"\n")
        return [_parse_decimal(line.decode("latin-1")) for line in data.split(b"\n")[1:expected_lines]]

    # -- stream ------------------------------------------------------------------------------------------------------

    def _read_exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        while len(data) < size:
            more = self._stream.read(size - len(data))
            if not more:
                raise BadImage("unexpected end of the archive in an entry")
            data += more
        self._position += size
        return data

    def _skip(self, size: int) -> None:
        if self._can_seek and size:
            self._stream.seek(size, 1)
            self._position += size
            return
        while size > 0:
            size -= len(self._read_exactly(min(size, _PIECE)))


def _read_pax(content: bytes, pax: _PaxHeaders) -> None:
    """Parse records of the form `LENGTH KEY=VALUE\\n`, where LENGTH is that of the whole record."""
    position = 0
    while position < len(content) and content[position]:
        space = content.find(b" ", position, position + 20)
        length = _parse_decimal(content[position:space].decode("latin-1")) if space > 0 else 0
        end = position + length
        if length < 4 or end > len(content) or content[end - 1 : end] != b"\n":
            raise BadImage("the archive has a PAX header that cannot be read")
        key, equals, value = content[space + 1 : end - 1].partition(b"=")
        if not equals or not key:
            raise BadImage("the archive has a PAX header that cannot be read")
        _apply_pax_record(pax, key.decode("utf-8", "surrogateescape"), value)
        position = end


def _apply_pax_record(pax: _PaxHeaders, key: str, value: bytes) -> None:
    if key == "path":
        pax.path = _text(value, is_whole=True)
    elif key == "linkpath":
        pax.link_path = _text(value, is_whole=True)
    elif key.startswith(_XATTR):
        pax.xattrs[key.removeprefix(_XATTR)] = value
        if len(pax.xattrs) > limits.IMAGE_XATTRS:
            raise BadImage(f"the archive has an entry with more than {limits.IMAGE_XATTRS} extended attributes")
    elif key in ("GNU.sparse.offset", "GNU.sparse.numbytes"):
        pax.sparse.append(_parse_decimal(value.decode("latin-1")))
    elif key in ("size", "uid", "gid", "mtime") or key.startswith("GNU.sparse."):
        pax.values[key] = value.decode("utf-8", "surrogateescape")


def _extents(numbers: Sequence[int], entry: TarEntry) -> Extents:
    if len(numbers) % 2:
        raise BadImage(f"the archive has a sparse file {entry.name!r} with an incomplete entry in its map")
    extents = [(numbers[index], numbers[index + 1]) for index in range(0, len(numbers), 2)]
    last = 0
    for start, length in extents:
        if start < last:
            raise BadImage(f"the archive has a sparse file {entry.name!r} whose parts are not in order")
        last = start + length
    if last > entry.size or sum(length for _, length in extents) != entry.stored:
        raise BadImage(f"the archive has a sparse file {entry.name!r} whose map does not match its size")
    return extents


def _numbers(data: bytes) -> list[int]:
    """Return the pairs of a GNU sparse header, two numbers of 12 bytes each; the first empty pair ends the map."""
    numbers: list[int] = []
    for index in range(0, len(data), 24):
        if not data[index]:
            break
        numbers += [_number(data[index : index + 12]), _number(data[index + 12 : index + 24])]
    return numbers


def _number(field: bytes) -> int:
    """Return the value of a number in octal digits, or in binary if the first bit is set. Raise BadImage if it is
    negative or out of range."""
    if field[:1] >= b"\x80":
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        if field[0] & 0x40 or value >= 1 << 63:
            raise BadImage("the archive has a header with a number out of range")
        return value
    digits = field.strip(b" \0")
    if b"\0" in digits:
        digits = digits.partition(b"\0")[0].rstrip(b" ")
    if not _OCTAL.fullmatch(digits):
        raise BadImage("the archive has a header with an invalid number")
    return int(digits, 8) if digits else 0


def _parse_decimal(text: str) -> int:
    if not 0 < len(text) <= 18 or not text.isascii() or not text.isdecimal():
        raise BadImage(f"the archive has a header with an invalid number: {text[:20]!r}")
    return int(text)


def _decimal(values: dict[str, str], key: str, field: bytes) -> int:
    """Return the value of a key in the PAX header, or else the one in the header field."""
    return _parse_decimal(values[key]) if key in values else _number(field)


def _id(value: int) -> int:
    if value >= (1 << 32) - 1:
        raise BadImage(f"the archive has an entry of a user or group {value}, which is out of range")
    return value


def _mtime(text: str | None, field: bytes) -> float:
    if text is None:
        is_negative = field[:1] == b"\xff"
        return 0.0 if is_negative else float(min(_number(field), _LATEST))
    if not _SECONDS.fullmatch(text):
        raise BadImage(f"the archive has a header with an invalid time: {text[:20]!r}")
    return min(max(float(text), 0.0), float(_LATEST))


def _name(block: bytes) -> str:
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and (prefix := _text(block[345:500])):
        return f"{prefix}/{name}"
    return name


def _text(data: bytes, *, is_whole: bool = False) -> str:
    if not is_whole:
        data = data.partition(b"\0")[0]
    return data.decode("utf-8", "surrogateescape")


def _check_path(path: str) -> None:
    if "\0" in path:
        raise BadImage("the archive has a name with a null byte in it")
    if len(path) > limits.IMAGE_PATH_BYTES:
        raise BadImage(f"the archive has a name of more than {limits.IMAGE_PATH_BYTES} bytes")
    if path.count("/") > limits.IMAGE_PATH_DEPTH:
        raise BadImage(f"the archive has a name with more than {limits.IMAGE_PATH_DEPTH} levels")
