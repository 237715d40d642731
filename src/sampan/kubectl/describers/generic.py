"""Descriptions of kinds that have no layout of their own, such as custom resources: every field with its value."""

from __future__ import annotations

import re
from typing import Any

from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.layout import Lines, Value, go_text, heading

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[^\W\dA-Z_]+|-+")
_ACRONYMS = frozenset({"API", "URL", "UID", "GUID"})
_SHOWN_ABOVE = frozenset({"name", "namespace", "labels", "annotations", "managedFields"})


def describe_generic(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj)
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SHOWN_ABOVE}
    yield from _fields({**obj, "metadata": metadata}, "")
    yield from view.events(obj, kind=str(obj.get("kind", "")))


def _fields(values: Value, indent: str) -> Lines:
    for key, value in sorted(values.items()):
        if isinstance(value, dict):
            yield f"{indent}{field_title(key)}:"
            yield from _fields(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{field_title(key)}:"
            for item in value:
                yield from _item(item, f"{indent}  ")
        else:
            yield f"{indent}{field_title(key)}:\t{go_text(value)}"


def _item(item: Any, indent: str) -> Lines:
    if isinstance(item, dict):
        yield from _fields(item, indent)
    else:
        yield f"{indent}{go_text(item)}"


def field_title(field: str) -> str:
    """Convert a field name to a title, such as `creationTimestamp` to `Creation Timestamp`. Names with other characters
    than letters and hyphens are unchanged."""
    if not all(char.isalpha() or char == "-" for char in field):
        return field
    parts, titles = _PARTS.findall(field), []
    index = 0
    while index < len(parts):
        word = parts[index]
        if len(word) >= 2 and word.isupper() and index + 1 < len(parts) and parts[index + 1][:1].isupper():
            word, index = word + parts[index + 1], index + 1
        index += 1
        if word.upper() in _ACRONYMS:
            word = word.upper()
        elif word.lower() == word:
            word = word.capitalize()
        titles.append(word)
    return " ".join(titles)
