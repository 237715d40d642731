"""The only parser of PEM text. It takes one pass over the lines and follows the rules of Go's `encoding/pem`, which the
Kubernetes components use, so that text means the same to Sampan and to kubectl.

A block starts with a line that starts with `-----BEGIN ` and ends with `-----`, and ends with the matching END line.
Text outside of blocks is ignored; of repeated BEGIN lines the last one counts; a block with malformed lines, headers or
base64 is skipped.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CERTIFICATE = "CERTIFICATE"
CERTIFICATE_REQUEST = "CERTIFICATE REQUEST"
PRIVATE_KEY_SUFFIX = "PRIVATE KEY"
"""The common suffix of private key types: `PRIVATE KEY`, `RSA PRIVATE KEY`, `EC PRIVATE KEY`."""

_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"
_BLANK = b" \t\r\n"
_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class PemBlock:
    type: str
    content: bytes = field(repr=False)
    """The decoded bytes, DER for certificates and keys."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the block as PEM with lines of 64 characters, without headers, as Go's `pem.Encode` writes it."""
        text = base64.b64encode(self.content)
        lines = [text[index : index + _COLUMNS] for index in range(0, len(text), _COLUMNS)]
        kind = self.type.encode()
        return b"\n".join([_BEGIN + kind + _DASHES, *lines, _END + kind + _DASHES, b""])


def read_blocks(text: bytes) -> Iterator[PemBlock]:
    """Yield the well-formed blocks of the text in order."""
    kind: bytes | None = None
    body: list[bytes] = []
    for line in text.split(b"\n"):
        if line.startswith(_BEGIN):
            remainder = line[len(_BEGIN) :].rstrip(_BLANK)
            kind, body = (remainder[: -len(_DASHES)], []) if remainder.endswith(_DASHES) else (None, [])
        elif line.startswith(_END):
            if kind is not None and line.rstrip(_BLANK) == _END + kind + _DASHES:
                block = _decode(kind, body)
                if block is not None:
                    yield block
            kind = None
        elif _BEGIN in line:
            kind = None
        elif kind is not None:
            body.append(line)


def count_markers(text: bytes) -> int:
    """Return how many BEGIN markers the text contains, at the start of a line or elsewhere.

    Parsers disagree about which of several markers start a block. Text with at most one means the same to all of them.
    """
    return text.count(b"-----BEGIN")


def _decode(kind: bytes, lines: Sequence[bytes]) -> PemBlock | None:
    headers: dict[str, str] = {}
    first = 0
    for line in lines:
        key, colon, value = line.partition(b":")
        if not colon:
            break
        headers[_text(key)] = _text(value)
        first += 1
    encoded = b"".join(lines[first:]).translate(None, _BLANK)
    try:
        content = binascii.a2b_base64(encoded, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return PemBlock(kind.decode("utf-8", "replace"), content, headers)


def _text(part: bytes) -> str:
    return part.strip().decode("utf-8", "replace")
