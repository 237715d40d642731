"""Encodes JSON values as the YAML that kubectl and kube-apiserver print: block style, sorted keys, lines folded at 80.

The layout rules are those of go-yaml's emitter; the output must be byte-identical, because people diff it and scripts
read it. Like the emitter, the writer keeps track of the content of the current line.
"""

import math
import re
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Final, Literal

from sampan.api.codec.yaml.nodes import MAX_DEPTH, YamlError
from sampan.api.codec.yaml.scalars import needs_quotes
from sampan.api.go_compat.gotext import float_text
from sampan.host.bounded_cache import BoundedCache

Style = Literal["plain", "single", "double", "literal"]

_WIDTH: Final = 80
_INDENT: Final = 2
_MAX_SIMPLE_KEY: Final = 128
_MAX_UINT: Final = 2**64 - 1
_MIN_INT: Final = -(2**63)

_BREAKS: Final = "\r\n\x85\u2028\u2029"
_BOM: Final = "\ufeff"
_UNPRINTABLE = re.compile("[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_BREAK = re.compile(f"[{_BREAKS}]")
_BREAK_SPACE = re.compile(f"[{_BREAKS}] ")
_SPACE_BREAK = re.compile(f" [{_BREAKS}]")
_INDICATOR = re.compile(
    r"""---|\.\.\.|[#,\[\]{}&*!|>'"%@`]|[?:-](?:[ \t]|\Z)"""  # at the start of the text
    rf"""|(?s:.)*?(?::(?:[ \t]|\Z)|[ \t\0{_BREAKS}]\#)""",  # anywhere in the text
)
_ESCAPED = re.compile('[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]|["\\\\\u2028\u2029]')
_ESCAPES: Final = {
    "\0": "0",
    "\x07": "a",
    "\x08": "b",
    "\t": "t",
    "\n": "n",
    "\x0b": "v",
    "\x0c": "f",
    "\r": "r",
    "\x1b": "e",
    '"': '"',
    "\\": "\\",
    "\x85": "N",
    "\xa0": "_",
    "\u2028": "L",
    "\u2029": "P",
}


def encode(value: Any) -> bytes:
    """Return a JSON value as YAML. Raise YamlError if it is nested too deeply to be read again."""
    writer = _Writer()
    writer.select_writer(value)(value, False)
    writer.line_start()
    return "".join(writer.parts).encode()


class _Writer:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self._column = 0
        self._indent = -1
        self._depth = 0
        self._after_space = True
        """Whether no space is needed before the next token."""
        self._only_indents = True
        """Whether the line holds only indentation and block indicators so far."""

    def select_writer(self, value: Any) -> Callable[[Any, bool], None]:
        """Return the method that writes a value. It is called in two steps, so that a level of nesting takes one stack
        frame."""
        if isinstance(value, dict):
            return self._mapping if value else self._empty
        if isinstance(value, list):
            return self._sequence if value else self._empty
        return self._scalar

    def line_start(self) -> None:
        """Move to the current indentation: on this line if it holds no more than that, else on a new line."""
        indent = max(self._indent, 0)
        if not self._only_indents or self._column > indent or (self._column == indent and not self._after_space):
            self._put_break("\n")
        if self._column < indent:
            self._put(" " * (indent - self._column))
        self._after_space = self._only_indents = True

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self._column += len(text)

    def _put_break(self, char: str) -> None:
        self.parts.append(char)
        self._column = 0

    def _indicator(self, text: str, *, is_block: bool = False, needs_space: bool = True) -> None:
        if needs_space and not self._after_space:
            self._put(" ")
        self._put(text)
        self._after_space = False
        self._only_indents = self._only_indents and is_block

    def _empty(self, value: Any, in_mapping: bool) -> None:
        self._indicator("{}" if isinstance(value, dict) else "[]")

    def _mapping(self, value: dict[str, Any], in_mapping: bool) -> None:
        outer = self._open(indents=True)
        for key in sort_keys(list(value)):
            self.line_start()
            self._key(key)
            item = value[key]
            self.select_writer(item)(item, True)
        self._close(outer)

    def _key(self, key: str) -> None:
        if _BREAK.search(key) or len(key.encode()) > _MAX_SIMPLE_KEY:
            self._indicator("?", is_block=True)
            self._scalar(key, False)
            self.line_start()
            self._indicator(":", is_block=True)
        else:
            self._scalar(key, False, is_simple_key=True)
            self._indicator(":", needs_space=False)

    def _sequence(self, value: list[Any], in_mapping: bool) -> None:
        outer = self._open(indents=not in_mapping or self._only_indents)
        for item in value:
            self.line_start()
            self._indicator("-", is_block=True)
            self.select_writer(item)(item, False)
        self._close(outer)

    def _open(self, *, indents: bool) -> int:
        """Start a collection; return the indentation to restore afterwards."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        outer = self._indent
        if outer < 0:
            self._indent = 0
        elif indents:
            self._indent = outer + _INDENT
        return outer

    def _close(self, outer: int) -> None:
        self._indent = outer
        self._depth -= 1

    def _scalar(self, value: Any, in_mapping: bool, is_simple_key: bool = False) -> None:
        outer = self._indent
        self._indent = outer + _INDENT if outer >= 0 else _INDENT
        if isinstance(value, str):
            self._string(value, is_simple_key=is_simple_key)
        else:
            self._indicator(_plain_text(value))
        self._indent = outer

    def _string(self, text: str, *, is_simple_key: bool) -> None:
        style = _style(text, is_simple_key=is_simple_key)
        may_fold = not is_simple_key
        if style == "literal":
            self._literal(text)
        elif style == "double":
            self._indicator('"')
            self._double_quoted(text, may_fold=may_fold)
            self._indicator('"', needs_space=False)
        elif style == "single":
            self._indicator("'")
            self._flow_text(text, may_fold=may_fold, is_quoted=True)
            self._indicator("'", needs_space=False)
        else:
            if not self._after_space:
                self._put(" ")
            self._flow_text(text, may_fold=may_fold, is_quoted=False)
            self._after_space = self._only_indents = False

    def _flow_text(self, text: str, *, may_fold: bool, is_quoted: bool) -> None:
        """Write a plain or single-quoted text, folded at spaces beyond the width, with line breaks doubled."""
        whole = text.replace("'", "''") if is_quoted else text
        if (not may_fold or self._column + len(whole) <= _WIDTH) and not _BREAK.search(text):
            self._put(whole)
            return
        was_space = was_break = False
        last = len(text) - 1
        for index, char in enumerate(text):
            if char == " ":
                inner = not is_quoted or 0 < index < last
                folds = (
                    may_fold
                    and not was_space
                    and self._column > _WIDTH
                    and inner
                    and text[index + 1 : index + 2] != " "
                )
                if folds:
                    self.line_start()
                else:
                    self._put(" ")
                was_space = True
            elif char in _BREAKS:
                if not was_break and char == "\n":
                    self._put_break("\n")
                self._put_break(char)
                self._only_indents = was_break = True
            else:
                if was_break:
                    self.line_start()
                self._put("''" if is_quoted and char == "'" else char)
                self._only_indents = was_space = was_break = False

    def _double_quoted(self, text: str, *, may_fold: bool) -> None:
        if text.startswith(_BOM):  # go-yaml then escapes every character as if it were a byte order mark
            self._put("".join(map(_escape_char, text)))
            return
        whole = _ESCAPED.sub(_escape_match, text)
        if not may_fold or self._column + len(whole) <= _WIDTH:
            self._put(whole)
            return
        was_space = False
        last = len(text) - 1
        for index, char in enumerate(text):
            if char == " " and not was_space and self._column > _WIDTH and 0 < index < last:
                self.line_start()
                if text[index + 1] == " ":
                    self._put("\\")
            else:
                self._put(_ESCAPED.sub(_escape_match, char))
            was_space = char == " "

    def _literal(self, text: str) -> None:
        self._indicator("|" + _block_hints(text))
        self._put_break("\n")
        self._only_indents = self._after_space = was_break = True
        for char_or_run in re.findall(f"[{_BREAKS}]|[^{_BREAKS}]+", text):
            if char_or_run in _BREAKS:
                self._put_break(char_or_run)
                self._only_indents = was_break = True
            else:
                if was_break:
                    self.line_start()
                self._put(char_or_run)
                self._only_indents = was_break = False


def _plain_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and (not value.is_integer() or not math.isfinite(value)):
        return float_text(value)
    if isinstance(value, int | float) and _MIN_INT <= value <= _MAX_UINT:
        return str(int(value))
    if isinstance(value, int | float):
        return float_text(float(value))
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _style(text: str, *, is_simple_key: bool) -> Style:
    return _styles[text, is_simple_key]


def _find_style(text_and_role: tuple[str, bool]) -> Style:
    text, is_simple_key = text_and_role
    if not text:
        return "double"
    is_special = _UNPRINTABLE.search(text) is not None
    if _BREAK.search(text):
        return _find_multiline_style(text, is_special=is_special, is_simple_key=is_simple_key)
    if is_special or needs_quotes(text):
        return "double"
    return "single" if text[0] == " " or text[-1] == " " or _INDICATOR.match(text) else "plain"


_styles = BoundedCache(_find_style, max_entries=8192, max_entry_bytes=512)
"""The styles of field names and common values, which occur again and again, and whether they are simple keys."""


def _find_multiline_style(text: str, *, is_special: bool, is_simple_key: bool) -> Style:
    """Return the style of a multi-line text."""
    if is_simple_key or is_special or _SPACE_BREAK.search(text):
        return "double"
    if "\n" in text:
        return "double" if text[-1] == " " else "literal"
    if needs_quotes(text) or _BREAK_SPACE.search(text):
        return "double"
    return "single"


def _block_hints(text: str) -> str:
    indent = str(_INDENT) if text[0] == " " or text[0] in _BREAKS else ""
    if text[-1] not in _BREAKS:
        return indent + "-"
    return indent + ("+" if len(text) == 1 or text[-2] in _BREAKS else "")


def _escape_match(match: re.Match[str]) -> str:
    return _escape_char(match[0])


def _escape_char(char: str) -> str:
    if char in _ESCAPES:
        return "\\" + _ESCAPES[char]
    code = ord(char)
    return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def sort_keys(keys: list[str]) -> list[str]:
    """Return keys in the order of written YAML: letters by code point, runs of digits by their number (`a9` before
    `a10`), and letters after all other characters."""
    if all(key.isalpha() for key in keys):
        return sorted(keys)
    return sorted(keys, key=cmp_to_key(_compare_keys))


def _compare_keys(left: str, right: str) -> int:
    position = _first_difference(left, right)
    if position is None:
        return len(left) - len(right)
    a, b = left[position], right[position]
    if a.isalpha() != b.isalpha():
        return 1 if a.isalpha() else -1
    if not a.isalpha():
        number_a, end_a = _number(left, position, right[position])
        number_b, end_b = _number(right, position, left[position])
        if number_a != number_b:
            return number_a - number_b
        if end_a != end_b:
            return end_a - end_b
    return ord(a) - ord(b)


def _first_difference(left: str, right: str) -> int | None:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return None


def _number(key: str, index: int, other: str) -> tuple[int, int]:
    """Return the run of digits at a position as a number, and its end. If a zero continues a number above zero, the
    result gets a leading 1, so that the zero counts as a digit."""
    number = 0
    if key[index] == "0" or other == "0":
        before = index - 1
        while before >= 0 and key[before].isdecimal():
            if key[before] != "0":
                number = 1
                break
            before -= 1
    end = index
    while end < len(key) and key[end].isdecimal():
        number = _int64(number * 10 + ord(key[end]) - ord("0"))
        end += 1
    return number, end


def _int64(value: int) -> int:
    """Wrap around like Go's int64."""
    return (value + 2**63) % 2**64 - 2**63
