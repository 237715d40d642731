"""Escaping of names that are not identifiers in expressions: `kubernetes.io` becomes `kubernetes__dot__io`."""

from __future__ import annotations

import re
from typing import Any, Final

RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
"""Words that cannot be used as names in expressions."""
_WORDS: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_MARKS = re.compile(r"__|[-./]")
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


def escape_name(name: str) -> str:
    """Return the name as it is written in an expression; empty if it cannot be expressed."""
    if name in RESERVED:
        return f"__{name}__"
    return _MARKS.sub(lambda match: _WORDS[match[0]], name) if _NAME.fullmatch(name) else ""


def add_escaped_keys(value: Any) -> Any:
    """Return the value with the keys of each mapping also under their escaped names."""
    if isinstance(value, list | tuple):
        return [add_escaped_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    entries = {key: add_escaped_keys(item) for key, item in value.items()}
    others = {escape_name(key): item for key, item in entries.items() if isinstance(key, str)}
    others.pop("", None)
    return {**others, **entries}
