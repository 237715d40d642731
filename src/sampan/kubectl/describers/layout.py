"""The pieces of which descriptions consist: labels, annotations, selectors, times and values as Go prints them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sampan.api.values.ages import age
from sampan.kubectl.printers.columns import align_columns

Value = Mapping[str, Any]
Lines = Iterator[str]
"""The lines of a description, with tab-separated columns."""

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"
_MAX_ANNOTATION_LENGTH = 140
_NOT_SHOWN = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_ZERO_TIME = "Mon, 01 Jan 0001 00:00:00 +0000"
_OPERATORS = {"In": "in", "NotIn": "notin"}


def text_of(lines: Iterator[str]) -> str:
    """Align the columns of a description. Control characters that a terminal would interpret are made visible."""
    content = "\n".join(lines).replace("\x1b", "^[").replace("\r", "\\r")
    return "\n".join(align_columns(content.split("\n"))) + "\n"


def meta(obj: Value) -> Value:
    return obj.get("metadata") or {}


def part(obj: Value, *names: str) -> Any:
    """Return the object nested under these field names, or an empty one."""
    for name in names:
        obj = obj.get(name) or {}
    return obj


def items(obj: Value, *names: str) -> list[Any]:
    """Return the list nested under these field names, or an empty one."""
    return list(part(obj, *names) or ())


def heading(obj: Value, *own_lines: str, has_namespace: bool = True) -> Lines:
    """Yield the first lines of a description: name, namespace, the lines of this kind (`own_lines`), labels and
    annotations."""
    metadata = meta(obj)
    yield f"Name:\t{metadata.get('name', '')}"
    if has_namespace:
        yield f"Namespace:\t{metadata.get('namespace', '')}"
    yield from own_lines
    yield from label_lines("Labels", metadata.get("labels"))
    yield from annotation_lines("Annotations", metadata.get("annotations"))


def format_list(title: str, texts: Sequence[str], indent: str = "") -> Lines:
    """Yield a title with one text per line beside it."""
    yield f"{indent}{title}:\t{texts[0] if texts else NONE}"
    yield from (f"{indent}\t{text}" for text in texts[1:])


def label_lines(title: str, values: Mapping[str, str] | None, indent: str = "") -> Lines:
    yield from format_list(title, [f"{key}={value}" for key, value in sorted((values or {}).items())], indent)


def annotation_lines(title: str, values: Mapping[str, str] | None) -> Lines:
    """Yield the annotations. Long ones start on a new line and are cut off. The last-applied annotation is omitted, as
    it repeats the object, including the data of a Secret."""
    yield from format_list(title, list(_annotation_texts(values or {})))


def _annotation_texts(values: Mapping[str, str]) -> Iterator[str]:
    for key, value in sorted(values.items()):
        text = value.removesuffix("\n")
        if key in _NOT_SHOWN:
            continue
        if len(key) + len(text) + 2 <= _MAX_ANNOTATION_LENGTH and "\n" not in text:
            yield f"{key}: {text}"
            continue
        yield f"{key}:"
        yield from (f"  {truncate(line, _MAX_ANNOTATION_LENGTH - 2)}" for line in text.split("\n"))


def truncate(text: str, max_length: int = _MAX_ANNOTATION_LENGTH) -> str:
    return f"{text[:max_length]}..." if len(text) > max_length else text


def format_labels(values: Mapping[str, str] | None) -> str:
    """Return a set of labels in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def selector_text(selector: Value | None) -> str:
    """Return a label selector in one line. No selector selects nothing, an empty one everything."""
    if selector is None:
        return ""
    terms = [(str(key), f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = str(expression.get("key", "")), str(expression.get("operator", ""))
        values = ",".join(sorted(expression.get("values") or ()))
        if operator in _OPERATORS:
            terms.append((key, f"{key} {_OPERATORS[operator]} ({values})"))
        else:
            terms.append((key, key if operator == "Exists" else f"!{key}"))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def selector_or_none(selector: Value | None) -> str:
    return selector_text(selector) or NONE


def time_text(text: str | None) -> str:
    """Format a time as Go's RFC 1123 with a numeric zone; an absent time is the year 1."""
    if not text:
        return _ZERO_TIME
    return datetime.fromisoformat(text.replace("Z", "+00:00")).strftime("%a, %d %b %Y %H:%M:%S %z")


def format_age(text: str | None) -> str:
    return age(text, time.time())


def go_text(value: Any) -> str:
    """Return a value as Go's %v prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(go_text(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    return "<nil>" if value is None else str(value)


def go_struct(name: str, value: Value | None, *fields: str) -> str:
    """Return a pointer to an API type as its generated String method prints it."""
    if value is None:
        return "nil"
    parts = "".join(f"{field[0].upper()}{field[1:]}:{go_text(value.get(field, ''))}," for field in fields)
    return f"&{name}{{{parts}}}"


def true_or_false(value: Any) -> str:
    """Return True or False, or <unset> without a value."""
    return UNSET if value is None else "True" if value else "False"


def optional_text(source: Value) -> str:
    return go_text(bool(source.get("optional")))


def controller_of(obj: Value) -> Value | None:
    return next((ref for ref in items(obj, "metadata", "ownerReferences") if ref.get("controller")), None)


def controller_lines(obj: Value) -> Lines:
    if (owner := controller_of(obj)) is not None:
        yield f"Controlled By:\t{owner.get('kind')}/{owner.get('name')}"


def conditions(obj: Value, *, has_times: bool = False, titles: Sequence[str] = ("Conditions:",)) -> Lines:
    """Yield the table of the conditions in the status, with times and messages, or only with types and reasons."""
    rows = items(obj, "status", "conditions")
    if not rows:
        return
    yield from titles
    if not has_times:
        yield "  Type\tStatus\tReason"
        yield "  ----\t------\t------"
        yield from (f"  {row.get('type')} \t{row.get('status')}\t{row.get('reason', '')}" for row in rows)
        return
    yield "  Type\tStatus\tLastTransitionTime\tReason\tMessage"
    yield "  ----\t------\t------------------\t------\t-------"
    for row in rows:
        yield (
            f"  {row.get('type')}\t{row.get('status')}\t{time_text(row.get('lastTransitionTime'))}\t"
            f"{row.get('reason', '')}\t{row.get('message', '')}"
        )
