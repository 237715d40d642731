"""The lexer: splits an expression into tokens."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sampan.machinery.cel.errors import Issue

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


class Token(NamedTuple):
    kind: str
    text: str
    """The text as in the source."""
    offset: int


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


def tokenize(source: str, issues: list[Issue]) -> list[Token]:
    """Return the tokens, the last of which is the end. Unrecognized characters are reported and skipped."""
    tokens: list[Token] = []
    at, length = 0, len(source)
    scan = _TOKEN.match
    while at < length:
        match = scan(source, at)
        if match is None:
            unclosed = _UNCLOSED.match(source, at)
            text = unclosed[0] if unclosed else source[at]
            issues.append(Issue(at, f"Syntax error: token recognition error at: '{_shown(text)}'"))
            at += len(text)
            continue
        group = match.lastgroup or "space"
        if group != "space":
            kind, text = _KINDS[group], match[0]
            tokens.append(Token(OPERATOR if text in KEYWORDS else kind, text, at))
        at = match.end()
    tokens.append(Token(END, "<EOF>", length))
    return tokens


def _shown(text: str) -> str:
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
