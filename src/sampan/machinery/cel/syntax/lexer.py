"""The lexer: splits an expression into tokens, and reads the values of literals."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sampan.machinery.cel.errors import Issue
from sampan.machinery.cel.runtime.values import INT_MAX, INT_MIN, UINT_MAX, Uint

IDENTIFIER, INT, UINT, FLOAT, STRING, BYTES, OPERATOR, END = (
    "IDENTIFIER",
    "NUM_INT",
    "NUM_UINT",
    "NUM_FLOAT",
    "STRING",
    "BYTES",
    "operator",
    "<EOF>",
)
KEYWORDS: Final = frozenset(("true", "false", "null", "in"))

_QUOTED = r"""'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n\r]|\\.)*+'|"(?:[^"\\\n\r]|\\.)*+\""""
_RAW = r"""'''.*?'''|\"\"\".*?\"\"\"|'[^'\n\r]*+'|"[^"\n\r]*+\""""
_TOKEN = re.compile(
    rf"""
    (?P<space>(?:[\t \r\n\f]|//[^\n]*)++)
    |(?P<bytes>[bB](?:{_QUOTED}|[rR](?:{_RAW})))
    |(?P<string>{_QUOTED}|[rR](?:{_RAW}))
    |(?P<float>(?:[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++|\.[0-9]++(?:[eE][+-]?[0-9]++)?))
    |(?P<uint>(?:0x[0-9a-fA-F]++|[0-9]++)[uU])
    |(?P<int>0x[0-9a-fA-F]++|[0-9]++)
    |(?P<identifier>[A-Za-z_][A-Za-z0-9_]*+)
    |(?P<operator>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{{}}])
    """.replace("\n    ", "").replace("[\\t \\r", "[\\t\\x20\\r"),
    re.DOTALL,
)
_KINDS: Final = {
    "bytes": BYTES,
    "string": STRING,
    "float": FLOAT,
    "uint": UINT,
    "int": INT,
    "identifier": IDENTIFIER,
    "operator": OPERATOR,
}
_UNCLOSED = re.compile(r"[bB]?[rR]?(?:'[^\n\r]*|\"[^\n\r]*)")

_SIMPLE: Final = {
    "a": 7,
    "b": 8,
    "f": 12,
    "n": 10,
    "r": 13,
    "t": 9,
    "v": 11,
    "\\": 92,
    "'": 39,
    '"': 34,
    "`": 96,
    "?": 63,
}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.)|$)",
    re.DOTALL,
)


class Token(NamedTuple):
    kind: str
    text: str
    """The text of the token as it is written in the source."""
    offset: int


def tokenize(source: str, issues: list[Issue]) -> list[Token]:
    """Return the tokens, the last of which is the end. Unrecognized characters are reported and skipped."""
    tokens: list[Token] = []
    position, length = 0, len(source)
    scan = _TOKEN.match
    while position < length:
        match = scan(source, position)
        if match is None:
            unclosed = _UNCLOSED.match(source, position)
            text = unclosed[0] if unclosed else source[position]
            issues.append(Issue(position, f"Syntax error: token recognition error at: '{_escape_whitespace(text)}'"))
            position += len(text)
            continue
        group = match.lastgroup or "space"
        if group != "space":
            kind, text = _KINDS[group], match[0]
            tokens.append(Token(OPERATOR if text in KEYWORDS else kind, text, position))
        position = match.end()
    tokens.append(Token(END, "<EOF>", length))
    return tokens


def _escape_whitespace(text: str) -> str:
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


class LiteralError(ValueError):
    """A literal is out of range or has an unknown escape sequence."""


def int_value(text: str) -> int:
    value = int(text, 16) if "x" in text else _decimal(text)
    if not INT_MIN <= value <= INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def uint_value(text: str) -> Uint:
    digits = text[:-1]
    value = int(digits, 16) if "x" in digits else _decimal(digits)
    if value > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return Uint(value)


def _decimal(text: str) -> int:
    if len(text) > 1_000:  # Python rejects very long numbers, which are out of range unless they have leading zeros
        text = text.lstrip("0") or "0"
        if len(text) > 1_000:
            return UINT_MAX + 1
    return int(text)


def float_value(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise LiteralError("invalid double literal")
    return value


def string_value(text: str) -> str:
    body, is_raw = _body(text)
    if is_raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_string_escape, body)


def bytes_value(text: str) -> bytes:
    body, is_raw = _body(text[1:])
    if is_raw or "\\" not in body:
        return _utf8(body)
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(body):
        parts += [_utf8(body[position : match.start()]), _bytes_escape(match)]
        position = match.end()
    return b"".join((*parts, _utf8(body[position:])))


def _body(text: str) -> tuple[str, bool]:
    """Return the text between the quotes, and whether it is raw."""
    is_raw = text[0] in "rR"
    text = text.removeprefix("r").removeprefix("R") if is_raw else text
    width = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    body = text[width:-width]
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    return body, is_raw


def _code(match: re.Match[str]) -> int:
    simple, hexadecimal, four, eight, octal, other = match.groups()
    if simple:
        return _SIMPLE[simple]
    if octal:
        return int(octal, 8)
    digits = hexadecimal or four or eight
    if digits is None:
        raise LiteralError(f"invalid escape sequence: \\{other or ''}")
    return int(digits, 16)


def _string_escape(match: re.Match[str]) -> str:
    code = _code(match)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def _bytes_escape(match: re.Match[str]) -> bytes:
    """Return the byte of a hexadecimal or octal escape; escapes of code points are not allowed in bytes."""
    if match[3] or match[4]:
        raise LiteralError("unable to unescape string")
    return bytes((_code(match),))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
