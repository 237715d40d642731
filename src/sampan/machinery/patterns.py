"""Regular expressions written by users, matched by RE2 in time that is linear in the text.

Python's `re` backtracks: a pattern of a few characters can take hours. Patterns that come from requests, configuration
or images are compiled here and nowhere else. RE2 has neither backreferences nor look-around, as in Kubernetes, whose Go
`regexp` package implements the same syntax. Length, program size and memory of a pattern are bounded by
`sampan.api.limits`.

The library is imported with the first pattern (8 ms, 1.6 MB).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sampan.api.limits import PATTERN_CHARACTERS, PATTERN_MEMORY_BYTES, PATTERNS_CACHED
from sampan.host.bounded_cache import BoundedCache


class PatternError(ValueError):
    """The text is not a regular expression of RE2, or is too large."""


class Pattern:
    __slots__ = ("_compiled", "program_size", "text")

    def __init__(self, text: str, compiled: Any) -> None:
        self.text, self._compiled = text, compiled
        self.program_size: int = compiled.programsize
        """The number of instructions. Matching takes at most this many steps for each character of the text."""

    def matches(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        return self._compiled.search(_encode_text(text)) is not None

    def find(self, text: str) -> str | None:
        """Return the leftmost match, or None."""
        match = self._compiled.search(_encode_text(text))
        return None if match is None else match.group().decode()

    def find_all(self, text: str) -> Iterator[str]:
        """Yield the matches from left to right, without overlap. As in Go, an empty match that adjoins the previous
        match is omitted."""
        last_end = -1
        for match in self._compiled.finditer(_encode_text(text).decode()):
            start, end = match.span()
            if end > start or start != last_end:
                yield match.group()
            last_end = end


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; raise PatternError with the message of Go."""
    if len(text) > PATTERN_CHARACTERS:
        raise PatternError(f"pattern too long: {len(text)} characters, at most {PATTERN_CHARACTERS}")
    return _patterns[text]


def _compile(text: str) -> Pattern:
    import re2

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        return Pattern(text, re2.compile(_encode_text(text), options))
    except re2.error as error:
        message = error.args[0] if error.args else ""
        raise PatternError(_describe_as_go(message.decode() if isinstance(message, bytes) else str(message))) from None


_patterns = BoundedCache(_compile, max_entries=PATTERNS_CACHED, max_entry_bytes=80 << 10)

_GO_DESCRIPTIONS = {"missing )": "missing closing )", "missing ]": "missing closing ]"}
"""The errors that RE2 and Go describe in different words."""


def _describe_as_go(message: str) -> str:
    """Return an error of RE2 as Go's `regexp` writes it."""
    reason, _, part = message.partition(": ")
    return f"{_GO_DESCRIPTIONS.get(reason, reason)}: `{part}`" if part else message


def _encode_text(text: str) -> bytes:
    """Return the text in UTF-8, with each lone surrogate, which UTF-8 cannot express, replaced by U+FFFD. RE2 works on
    bytes: passing bytes, where offsets do not matter, saves the library a conversion."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text).encode()
