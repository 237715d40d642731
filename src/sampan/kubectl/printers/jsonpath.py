"""JSONPath expressions of kubectl's flags, and the error of a template that fails (`kubectl/pkg/cmd/get`).

The templates themselves are in `sampan.machinery.jsonpath`.
"""

from __future__ import annotations

import re
from typing import Any

from sampan.api.go_compat import gotext
from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate


def normalize_path(expression: str) -> str:
    """Return a path in braces from one that may lack them or its leading dot: `metadata.name` to `{.metadata.name}`."""
    if not expression:
        return expression
    match = re.fullmatch(r"\{\.?([^{}]+)\}|\.?([^{}]+)", expression)
    if match is None:
        raise JsonPathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'"
        )
    return f"{{.{match[1] or match[2]}}}"


def render_json(template: JsonPathTemplate, value: Any) -> str:
    """Return the selected values as JSON arrays, one for each part of the template."""
    from sampan.kubectl.printers.objects import as_json

    return "".join(as_json(results) + "\n" for results in template.find(value))


def go_syntax(value: Any) -> str:
    """Return a JSON value as Go's %#v prints it."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, dict):
        pairs = ", ".join(f"{gotext.quote(key)}:{go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(go_syntax, value))}}}"
    return gotext.value(value)
