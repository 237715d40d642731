"""Locates the syntax error of a text that a JSON parser has rejected, with Go's messages."""

import re

from sampan.api.go_compat.gotext import quote_byte

MAX_DEPTH = 10_000
UNEXPECTED_END_MESSAGE = "unexpected end of JSON input"
TOO_DEEP_MESSAGE = "exceeded max depth"

_SPACE = re.compile(rb"[ \t\r\n]*")
_UNESCAPED_PATTERN = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(rb"[0-9]*")
_WORDS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


class _ScanFailed(Exception):
    """Carries the error message out of the scanner."""


def error_message(body: bytes) -> str | None:
    """Return Go's error message for `body`, or None if it is valid JSON."""
    try:
        _Scanner(body).document()
    except _ScanFailed as stop:
        return str(stop)
    return None


class _Scanner:
    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0
        self.open: list[bytes] = []
        """The brackets that are still open."""

    def document(self) -> None:
        self.space()
        more = self.value()
        while more or self.open:
            more = self.value() if more else self.scan_after_value()
        self.space()
        if self.at < len(self.body):
            self.stop("after top-level value")

    def value(self) -> bool:
        """Scan one value. Return True if it starts a list or object whose first value comes next."""
        byte = self.body[self.at : self.at + 1]
        if byte in (b"{", b"["):
            return self.enter(byte)
        if byte == b'"':
            self.string()
        elif byte and byte in b"-0123456789":
            self.number()
        elif byte and byte[0] in _WORDS:
            self.word(_WORDS[byte[0]])
        else:
            self.stop("looking for beginning of value")
        return False

    def enter(self, byte: bytes) -> bool:
        self.at += 1
        self.open.append(byte)
        if len(self.open) > MAX_DEPTH:
            raise _ScanFailed(f"invalid character '{byte.decode()}' {TOO_DEEP_MESSAGE}")
        self.space()
        if self.take(b"}" if byte == b"{" else b"]"):
            self.open.pop()
            return False
        if byte == b"{":
            self.key()
        return True

    def scan_after_value(self) -> bool:
        """Scan the end of the innermost list or object, or a comma (and a key). Return True if another value
        follows."""
        self.space()
        is_object = self.open[-1] == b"{"
        if self.take(b"}" if is_object else b"]"):
            self.open.pop()
            return False
        if not self.take(b","):
            self.stop("after object key:value pair" if is_object else "after array element")
        self.space()
        if is_object:
            self.key()
        return True

    def key(self) -> None:
        if self.body[self.at : self.at + 1] != b'"':
            self.stop("looking for beginning of object key string")
        self.string()
        self.space()
        if not self.take(b":"):
            self.stop("after object key")
        self.space()

    def string(self) -> None:
        self.at += 1
        while True:
            self.skip(_UNESCAPED_PATTERN)
            if self.take(b'"'):
                return
            if not self.take(b"\\"):
                self.stop("in string literal")
            self.escape()

    def escape(self) -> None:
        if self.take(b"u"):
            for _ in range(4):
                self.expect_one_of(b"0123456789abcdefABCDEF", "in \\u hexadecimal character escape")
        else:
            self.expect_one_of(b'bfnrt\\/"', "in string escape code")

    def number(self) -> None:
        if self.take(b"-") and not self.body[self.at : self.at + 1].isdigit():
            self.stop("in numeric literal", at_end=" ")
        if not self.take(b"0"):
            self.skip(_DIGITS)
        if self.take(b"."):
            self.expect_one_of(b"0123456789", "after decimal point in numeric literal")
            self.skip(_DIGITS)
        if self.take(b"e") or self.take(b"E"):
            _ = self.take(b"+") or self.take(b"-")
            self.expect_one_of(b"0123456789", "in exponent of numeric literal")
            self.skip(_DIGITS)

    def word(self, word: bytes) -> None:
        for expected in word:
            self.expect_one_of(bytes([expected]), f"in literal {word.decode()} (expecting {chr(expected)!r})")

    def space(self) -> None:
        self.skip(_SPACE)

    def skip(self, pattern: re.Pattern[bytes]) -> None:
        match = pattern.match(self.body, self.at)
        self.at = match.end() if match else self.at

    def take(self, byte: bytes) -> bool:
        is_next = self.body[self.at : self.at + 1] == byte
        self.at += is_next
        return is_next

    def expect_one_of(self, allowed: bytes, context: str) -> None:
        if self.body[self.at : self.at + 1] not in [allowed[i : i + 1] for i in range(len(allowed))]:
            self.stop(context, at_end=" ")
        self.at += 1

    def stop(self, context: str, at_end: str = "") -> None:
        """Raise the error at the current position. Go reads a space after the end: where a space is allowed, the input
        is incomplete; elsewhere the space is the invalid character (`at_end`)."""
        if self.at >= len(self.body):
            raise _ScanFailed(f"invalid character '{at_end}' {context}" if at_end else UNEXPECTED_END_MESSAGE)
        raise _ScanFailed(f"invalid character {quote_byte(self.body[self.at])} {context}")
