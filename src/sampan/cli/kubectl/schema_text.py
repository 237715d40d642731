"""The text of `kubectl explain` for a schema of an OpenAPI v3 document (kubectl's pkg/explain/v2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sampan.cli.kubectl.word_wrap import wrap_words

Schema = Mapping[str, Any]

_MOST_ENUM_VALUES = 4
_METHODS = ("get", "post", "put", "patch", "delete")


class SchemaText:
    """Renders schemas of one document, in which references are resolved."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def kind_of(self, group: str, version: str, plural: str) -> Schema | None:
        """Return group, version and kind of the objects at a resource's paths."""
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        paths = self._document.get("paths") or {}
        for path in (
            f"{prefix}/{plural}",
            f"{prefix}/{plural}/{{name}}",
            f"{prefix}/namespaces/{{namespace}}/{plural}",
            f"{prefix}/namespaces/{{namespace}}/{plural}/{{name}}",
        ):
            for method in _METHODS:
                kind = ((paths.get(path) or {}).get(method) or {}).get("x-kubernetes-group-version-kind")
                if kind:
                    return dict(kind)
        return None

    def schema_of(self, kind: Schema) -> Schema | None:
        schemas = (self._document.get("components") or {}).get("schemas") or {}
        for name in sorted(schemas):
            if dict(kind) in (schemas[name].get("x-kubernetes-group-version-kind") or ()):
                return dict(schemas[name])
        return None

    def render(
        self, schema: Schema, path: list[str], *, is_recursive: bool, history: frozenset[str] = frozenset()
    ) -> str:
        """Return the text for the field at a path; empty if there is no such field."""
        reference = str(schema.get("$ref") or "")
        resolved = self._resolved(schema)
        references = history | {reference}
        if not path:
            return self._explanation(resolved, is_recursive=is_recursive)
        if reference and reference in history:
            return ""
        properties = resolved.get("properties") or {}
        if path[0] in properties:
            field = properties[path[0]]
            title = ""
            if len(path) == 1:
                title = f"FIELD: {path[0]} <{self._type(field)}>\n{_long_enum(field)}\n\n"
            return title + self.render(field, path[1:], is_recursive=is_recursive)
        if resolved.get("items"):
            return self.render(resolved["items"], path, is_recursive=is_recursive, history=references)
        if isinstance(resolved.get("additionalProperties"), Mapping) and resolved["additionalProperties"]:
            return self.render(resolved["additionalProperties"], path, is_recursive=is_recursive, history=references)
        for alternative in resolved.get("allOf") or ():
            if text := self.render(alternative, path, is_recursive=is_recursive, history=references):
                return text
        return ""

    def _resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        value: Any = self._document
        for name in reference.removeprefix("#/").split("/"):
            value = value.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) and value else schema

    def _explanation(self, schema: Schema, *, is_recursive: bool) -> str:
        description = self._description(schema) or "<empty>"
        text = "DESCRIPTION:\n" + _indent(wrap_words(description, 76), 4) + "\n"
        if docs := _external_docs(schema, 0):
            text += "\n" + docs
        fields = "".join(self._fields(schema, 1, is_recursive, frozenset()))
        return f"{text}FIELDS:\n{fields}" if fields else text

    def _description(self, schema: Schema) -> str:
        schema = self._resolved(schema)
        parts = [f"{schema['description']}\n"] if schema.get("description") else []
        parts += [self._description(alternative) for alternative in schema.get("allOf") or ()]
        if schema.get("items"):
            parts.append(self._description(schema["items"]))
        if isinstance(schema.get("additionalProperties"), Mapping) and schema["additionalProperties"]:
            parts.append(self._description(schema["additionalProperties"]))
        return "".join(parts)

    def _fields(self, schema: Schema, level: int, is_recursive: bool, history: frozenset[str]) -> Iterator[str]:
        reference = str(schema.get("$ref") or "")
        if reference and reference in history:
            return
        references, resolved = history | {reference}, self._resolved(schema)
        properties = resolved.get("properties") or {}
        for name in sorted(properties):
            yield self._field(resolved, name, level, is_short=is_recursive)
            if is_recursive:
                yield from self._fields(properties[name], level + 1, is_recursive, references)
        for alternative in resolved.get("allOf") or ():
            yield from self._fields(alternative, level, is_recursive, references)
        if resolved.get("items"):
            yield from self._fields(resolved["items"], level, is_recursive, references)
        if isinstance(resolved.get("additionalProperties"), Mapping) and resolved["additionalProperties"]:
            yield from self._fields(resolved["additionalProperties"], level, is_recursive, references)

    def _field(self, schema: Schema, name: str, level: int, *, is_short: bool) -> str:
        field, amount = schema["properties"][name], level * 2
        text = f"{' ' * amount}{name}\t<{self._type(field)}>"
        text += " -required-" if name in (schema.get("required") or ()) else ""
        text += _short_enum(field, amount) + "\n"
        if is_short:
            return text
        description = field.get("description") or "<no description>"
        text += _indent(wrap_words(str(description), 78 - amount), amount + 2) + "\n"
        if docs := _external_docs(field, amount + 2, 76 - amount):
            text += "\n" + docs
        return text + "\n"

    def _type(self, schema: Schema) -> str:
        """Return a short name of a field's type, such as []Container or map[string]string."""
        if schema.get("items"):
            return f"[]{self._type(schema['items'])}"
        if isinstance(schema.get("additionalProperties"), Mapping) and schema["additionalProperties"]:
            return f"map[string]{self._type(schema['additionalProperties'])}"
        alternatives: list[Schema] = list(schema.get("allOf") or ())
        if len(alternatives) == 1 and not schema.get("properties"):
            return self._type(alternatives[0])
        if reference := schema.get("$ref"):
            target = self._resolved(schema)
            if target is schema or target.get("type") in (None, "", "object"):
                return str(reference).rpartition("/")[2].rpartition(".")[2] or "Object"
            return str(target["type"])
        kind = schema.get("type")
        return "Object" if kind == "object" else str(kind or "Object")


def _indent(text: str, amount: int) -> str:
    pad = " " * amount
    return pad + text.replace("\n", f"\n{pad}")


def _external_docs(schema: Schema, amount: int, width: int = 76) -> str:
    docs = schema.get("externalDocs")
    if not docs:
        return ""
    text = _indent("EXTERNAL DOCS:", amount) + "\n"
    if docs.get("description"):
        inner = amount + (2 if amount else 4)
        text += _indent(wrap_words(str(docs["description"]), width), inner) + "\n"
    if docs.get("url"):
        text += _indent(f"URL: {docs['url']}", amount + (2 if amount else 4)) + "\n"
    return text


def _enum_text(value: Any) -> str:
    return '""' if value == "" else str(value)


def _short_enum(schema: Schema, amount: int) -> str:
    values = schema.get("enum") or ()
    if not values:
        return ""
    text = ", ".join(_enum_text(value) for value in values[:_MOST_ENUM_VALUES])
    return f"\n{' ' * amount}enum: {text}" + (", ...." if len(values) > _MOST_ENUM_VALUES else "")


def _long_enum(schema: Schema) -> str:
    values = schema.get("enum") or ()
    return "ENUM:" + "".join(f"\n    {_enum_text(value)}" for value in values) if values else ""
