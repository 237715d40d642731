"""The text of `kubectl explain --output plaintext-openapiv2`, from an OpenAPI v2 document (kubectl's pkg/explain)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sampan.kubectl.errors import KubectlError

Schema = Mapping[str, Any]

_WIDTH = 80
_BULLET = re.compile(r"^(\d+\.?|-|\*)\s")


class SchemaTextV2:
    """Renders models of one OpenAPI v2 document, in which references are resolved."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._definitions: Mapping[str, Schema] = document.get("definitions") or {}

    def model_of(self, group: str, version: str, kind: str) -> Schema | None:
        identity = {"group": group, "version": version, "kind": kind}
        for model in self._definitions.values():
            if identity in (model.get("x-kubernetes-group-version-kind") or ()):
                return model
        return None

    def render(self, model: Schema, path: list[str], *, group: str, version: str, kind: str, max_depth: int) -> str:
        """Return the text for the field at a path. Raise KubectlError if there is no such field."""
        schema = self._lookup(model, path)
        api_version = f"{group}/{version}" if group else version
        head = f"KIND:     {kind}\nVERSION:  {api_version}\n\n"
        descriptions, type_name, leaf = self._descend(schema)
        lines = "\n\n".join("\n".join(_wrap_description(text, 5)) for text in descriptions if text) or "     <empty>"
        if _form(leaf) == "primitive":
            return f"{head}FIELD:    {path[-1]} <{type_name}>\n\nDESCRIPTION:\n{lines}\n"
        if _form(leaf) != "kind":
            return f"{head}DESCRIPTION:\n{lines}\n"
        title = f"RESOURCE: {path[-1]} <{type_name}>\n\n" if path else ""
        fields = self._nested_fields(leaf, 1, max_depth, frozenset()) if max_depth else self._fields(leaf)
        return f"{head}{title}DESCRIPTION:\n{lines}\n\nFIELDS:\n" + "".join(f"{line}\n" for line in fields)

    def _resolve(self, schema: Schema) -> Schema:
        return self._definitions.get(str(schema["$ref"]).rpartition("/")[2], {})

    def _lookup(self, schema: Schema, path: list[str]) -> Schema:
        remaining_path = list(path)
        while remaining_path:
            match _form(schema):
                case "reference":
                    schema = self._resolve(schema)
                case "array":
                    schema = schema.get("items") or {}
                case "map":
                    schema = schema.get("additionalProperties") or {}
                case "kind":
                    name = remaining_path.pop(0)
                    if name not in schema["properties"]:
                        raise KubectlError(f'field "{name}" does not exist')
                    schema = schema["properties"][name]
                case _:
                    return schema
        return schema

    def _descend(self, schema: Schema) -> tuple[list[str], str, Schema]:
        """Follow references, list items and map values to the innermost schema. Return the descriptions of all schemas
        on the way, the type of the first one that is not a reference, and the innermost schema."""
        descriptions, type_name = [], ""
        while True:
            descriptions.append(str(schema.get("description") or ""))
            form = _form(schema)
            if form != "reference":
                type_name = type_name or self._type(schema)
            if form == "reference":
                schema = self._resolve(schema)
            elif form == "array":
                schema = schema.get("items") or {}
            elif form == "map":
                schema = schema.get("additionalProperties") or {}
            else:
                return descriptions, type_name, schema

    def _type(self, schema: Schema) -> str:
        match _form(schema):
            case "reference":
                return self._type(self._resolve(schema))
            case "array":
                return f"[]{self._type(schema.get('items') or {})}"
            case "map":
                return f"map[string]{self._type(schema.get('additionalProperties') or {})}"
            case "kind":
                return "Object"
            case "primitive":
                return str(schema["type"])
            case _:
                return ""

    def _fields(self, schema: Schema) -> Iterator[str]:
        for name, field in sorted(schema["properties"].items()):
            required = " -required-" if name in (schema.get("required") or ()) else ""
            yield f"   {name}\t<{self._type(field)}>{required}"
            yield from _wrap_description(str(field.get("description") or ""), 5)
            yield ""

    def _nested_fields(self, schema: Schema, level: int, max_depth: int, history: frozenset[str]) -> Iterator[str]:
        match _form(schema):
            case "reference":
                name = str(schema["$ref"])
                if name not in history:
                    yield from self._nested_fields(self._resolve(schema), level, max_depth, history | {name})
            case "array":
                yield from self._nested_fields(schema.get("items") or {}, level, max_depth, history)
            case "map":
                yield from self._nested_fields(schema.get("additionalProperties") or {}, level, max_depth, history)
            case "kind":
                for name, field in sorted(schema["properties"].items()):
                    yield f"{' ' * (3 * level)}{name}\t<{self._type(field)}>"
                    if level < max_depth:
                        yield from self._nested_fields(field, level + 1, max_depth, history)


def _form(schema: Schema) -> str:
    if "$ref" in schema:
        return "reference"
    kind = schema.get("type")
    if schema.get("properties") and kind in (None, "object"):
        return "kind"
    if kind == "object":
        return "map"
    if kind == "array":
        return "array"
    return "primitive" if kind else "arbitrary"


def _wrap_description(text: str, indent: int) -> Iterator[str]:
    """Wrap a description. Empty lines, code blocks and lists keep their lines."""
    for line in _wrap_lines(text, _WIDTH - indent):
        yield " " * indent + line if line else ""


def _wrap_lines(text: str, width: int) -> list[str]:
    lines: list[str] = []
    words: list[str] = []

    def flush() -> None:
        if words:
            lines.append(" ".join(words))
            words.clear()

    for line in text.split("\n"):
        if line.startswith("    "):
            flush()
            lines.append(line)
            continue
        if lines and not line.strip():
            flush()
            lines.append("")
            continue
        if (words and words[-1].endswith(":")) or not line.strip() or _BULLET.match(line.strip()):
            flush()
        for word in line.split():
            if words and len(" ".join(words)) + 1 + len(word) > width:
                flush()
            words.append(word)
    flush()
    return lines
