"""The text of YAML and JSON files, and the documents in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sampan.kubectl.errors import KubectlError

_NEXT_DOCUMENT = re.compile(r"^---(?:[ \t].*)?$\n?", re.MULTILINE)


def decode_text(data: bytes) -> str:
    """Return the text of a file, whose encoding is that of its byte order mark or else UTF-8."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8")):
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def documents(text: str, source: str) -> Iterator[Any]:
    """Yield the values of the YAML or JSON documents in a text; empty documents are skipped."""
    from sampan.api.codec import yaml

    for document in _NEXT_DOCUMENT.split(text):
        try:
            value = yaml.decode(document.encode("utf-8", "surrogateescape")).value
        except yaml.YamlError as error:
            raise KubectlError(f"error parsing {source}: error converting YAML to JSON: {error}") from None
        if value is not None:
            yield value
