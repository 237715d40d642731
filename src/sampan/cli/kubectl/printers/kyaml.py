"""KYAML: YAML in flow style with quoted strings, which is valid YAML and easy to read and compare
(`sigs.k8s.io/yaml/kyaml`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sampan.api.go_compat import gotext

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_AMBIGUOUS = frozenset({"y", "yes", "n", "no", "on", "off", "true", "false", "null", "~"})


def as_kyaml(value: dict[str, Any]) -> str:
    return "---\n" + "".join(_text(value, 0))


def _text(value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, dict) and value:
        yield "{\n"
        for key in sorted(value):
            yield f"{indent}  {_key(key)}: "
            yield from _text(value[key], depth + 1)
            yield ",\n"
        yield indent + "}"
    elif isinstance(value, list) and value:
        yield from _items(value, depth)
    elif isinstance(value, (dict, list)):
        yield "{}" if isinstance(value, dict) else "[]"
    else:
        yield _scalar(value)


def _items(values: list[Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    if any(isinstance(item, (dict, list)) and item for item in values):
        yield "["
        for at, item in enumerate(values):
            yield ", " if at else ""
            yield from _text(item, depth)
        yield "]"
        return
    yield "[\n"
    for item in values:
        yield f"{indent}  "
        yield from _text(item, depth + 1)
        yield ",\n"
    yield indent + "]"


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _AMBIGUOUS else gotext.quote(key)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    return gotext.quote(value) if isinstance(value, str) else gotext.value(value)
