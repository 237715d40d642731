"""`kubectl explain`: show the documentation of a resource type and its fields.

The text comes from a schema of an OpenAPI v3 document (kubectl's pkg/explain/v2). Words are wrapped as by
github.com/mitchellh/go-wordwrap: line breaks of the text stay, long words too. `schema_text_v2`, for OpenAPI v2
documents, is imported late.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, int_flag, string_flag
from sampan.kubectl.errors import KubectlError, PlainError

_PLAINTEXT, _PLAINTEXT_V2 = "plaintext", "plaintext-openapiv2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    words: tuple[str, ...] = arguments()
    recursive: bool = bool_flag("-R", "--recursive", help="List the fields of fields, without descriptions.")
    max_depth: int = int_flag(
        "--max-depth", default=0, metavar="N", help="Number of levels that --recursive lists; 0 for all."
    )
    api_version: str = string_flag(
        "--api-version", metavar="VERSION", help="API version of the type, for example apps/v1."
    )
    output: str = string_flag(
        "-o", "--output", default=_PLAINTEXT, metavar="FORMAT", help=f"Output: {_PLAINTEXT} or {_PLAINTEXT_V2}."
    )


@KubectlCommand.define("explain", ExplainOptions)
def command(factory: Factory, options: ExplainOptions) -> None:
    """Show the documentation of a resource type or of one of its fields."""
    if not options.words:
        raise KubectlError(
            'You must specify the type of resource to explain. Use "kubectl api-resources" for a complete list of '
            "supported resources."
        )
    if len(options.words) > 1:
        raise KubectlError("We accept only this format: explain RESOURCE")
    if options.max_depth > 0 and not options.recursive:
        raise KubectlError("--max-depth requires --recursive")
    if options.max_depth < 0:
        raise KubectlError("--max-depth must be non-negative")
    max_depth = (options.max_depth or sys.maxsize) if options.recursive else 0
    kind, path = _kind_and_path(factory, options.words[0], has_version=bool(options.api_version))
    group, version = kind.group, kind.version
    if options.api_version:
        group, _, version = options.api_version.rpartition("/")
    if options.output == _PLAINTEXT_V2:
        click.echo(_explain_v2(factory, kind, group, version, path, max_depth), nl=False)
        return
    if options.output != _PLAINTEXT:
        raise KubectlError(f"unrecognized format: {options.output}")
    click.echo(_explain(factory, kind, group, version, path, max_depth), nl=False)


def _kind_and_path(factory: Factory, word: str, *, has_version: bool) -> tuple[ResourceType, list[str]]:
    """Split `deployments.apps.spec.replicas` into a resource type and the names of fields."""
    text = word.removesuffix(".")
    name, _, field_path = text.partition(".")
    try:
        kind = factory.kinds.find_by_name(name)
    except KubectlError as error:
        raise PlainError(error.message) from None
    qualified = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    if not has_version and (text == qualified or text.startswith(f"{qualified}.")):
        field_path = text[len(qualified) :].removeprefix(".")
    return kind, [field for field in field_path.split(".") if field]


def _explain(factory: Factory, kind: ResourceType, group: str, version: str, path: list[str], max_depth: int) -> str:
    location = f"apis/{group}/{version}" if group else f"api/{version}"
    entry = (factory.session.get("/openapi/v3").get("paths") or {}).get(location)
    resource = f"{group}/{version}, Resource={kind.plural}"
    if entry is None:
        raise KubectlError(f'couldn\'t find resource for "{resource}"')
    import msgspec

    document = msgspec.json.decode(factory.session.read(str(entry["serverRelativeURL"])))
    text = SchemaText(document)
    identity = text.kind_of(group, version, kind.plural)
    if identity is None:
        raise PlainError(f"error: GVR ({resource}) not found in OpenAPI schema")
    schema = text.schema_of(identity)
    if schema is None:
        raise PlainError(f"error: GVK {dict(identity)} not found in OpenAPI schema")
    title = f"GROUP:      {identity['group']}\n" if identity.get("group") else ""
    title += f"KIND:       {identity['kind']}\nVERSION:    {identity['version']}\n\n"
    body = text.render(schema, path, max_depth=max_depth)
    if not body:
        click.echo(title, nl=False)
        raise PlainError(f'error: field "{path[-1]}" does not exist')
    return f"{title}{body}\n"


def _explain_v2(factory: Factory, kind: ResourceType, group: str, version: str, path: list[str], max_depth: int) -> str:
    from sampan.kubectl.commands.explain.schema_text_v2 import SchemaTextV2

    document = factory.session.get("/openapi/v2")
    text = SchemaTextV2(document)
    model = text.model_of(group, version, kind.kind)
    if model is None:
        separator = f"{group}/{version}" if group else f"/{version}"
        raise KubectlError(f'couldn\'t find resource for "{separator}, Kind={kind.kind}"')
    return text.render(model, path, group=group, version=version, kind=kind.kind, max_depth=max_depth)


Schema = Mapping[str, Any]
_MAX_ENUM_VALUES = 4
_METHODS = ("get", "post", "put", "patch", "delete")


class SchemaText:
    """Renders schemas of one OpenAPI v3 document, in which references are resolved."""

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

    def render(self, schema: Schema, path: list[str], *, max_depth: int, history: frozenset[str] = frozenset()) -> str:
        """Return the text for the field at a path; empty if there is no such field."""
        reference = str(schema.get("$ref") or "")
        resolved = self._resolve(schema)
        references = history | {reference}
        if not path:
            return self._explanation(resolved, max_depth=max_depth)
        if reference and reference in history:
            return ""
        properties = resolved.get("properties") or {}
        if path[0] in properties:
            field = properties[path[0]]
            title = ""
            if len(path) == 1:
                title = f"FIELD: {path[0]} <{self._type(field)}>\n{_long_enum(field)}\n\n"
            return title + self.render(field, path[1:], max_depth=max_depth)
        if resolved.get("items"):
            return self.render(resolved["items"], path, max_depth=max_depth, history=references)
        if isinstance(resolved.get("additionalProperties"), Mapping) and resolved["additionalProperties"]:
            return self.render(resolved["additionalProperties"], path, max_depth=max_depth, history=references)
        for alternative in resolved.get("allOf") or ():
            if text := self.render(alternative, path, max_depth=max_depth, history=references):
                return text
        return ""

    def _resolve(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        value: Any = self._document
        for name in reference.removeprefix("#/").split("/"):
            value = value.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) and value else schema

    def _explanation(self, schema: Schema, *, max_depth: int) -> str:
        description = self._description(schema) or "<empty>"
        text = "DESCRIPTION:\n" + _indent(wrap_words(description, 76), 4) + "\n"
        if docs := _external_docs(schema, 0):
            text += "\n" + docs
        fields = "".join(self._fields(schema, 1, max_depth, frozenset()))
        return f"{text}FIELDS:\n{fields}" if fields else text

    def _description(self, schema: Schema) -> str:
        schema = self._resolve(schema)
        parts = [f"{schema['description']}\n"] if schema.get("description") else []
        parts += [self._description(alternative) for alternative in schema.get("allOf") or ()]
        if schema.get("items"):
            parts.append(self._description(schema["items"]))
        if isinstance(schema.get("additionalProperties"), Mapping) and schema["additionalProperties"]:
            parts.append(self._description(schema["additionalProperties"]))
        return "".join(parts)

    def _fields(self, schema: Schema, level: int, max_depth: int, history: frozenset[str]) -> Iterator[str]:
        reference = str(schema.get("$ref") or "")
        if reference and reference in history:
            return
        references, resolved = history | {reference}, self._resolve(schema)
        properties = resolved.get("properties") or {}
        for name in sorted(properties):
            yield self._field(resolved, name, level, is_short=max_depth > 0)
            if level < max_depth:
                yield from self._fields(properties[name], level + 1, max_depth, references)
        for alternative in resolved.get("allOf") or ():
            yield from self._fields(alternative, level, max_depth, references)
        if resolved.get("items"):
            yield from self._fields(resolved["items"], level, max_depth, references)
        if isinstance(resolved.get("additionalProperties"), Mapping) and resolved["additionalProperties"]:
            yield from self._fields(resolved["additionalProperties"], level, max_depth, references)

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
            target = self._resolve(schema)
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
    text = ", ".join(_enum_text(value) for value in values[:_MAX_ENUM_VALUES])
    return f"\n{' ' * amount}enum: {text}" + (", ...." if len(values) > _MAX_ENUM_VALUES else "")


def _long_enum(schema: Schema) -> str:
    values = schema.get("enum") or ()
    return "ENUM:" + "".join(f"\n    {_enum_text(value)}" for value in values) if values else ""


def wrap_words(text: str, limit: int) -> str:
    """Return the text with lines of at most `limit` characters, broken at spaces."""
    return "\n".join(_wrap_line(line, limit) for line in text.split("\n"))


def _wrap_line(line: str, limit: int) -> str:
    lines, current = [], ""
    for space, word in _spaces_and_words(line):
        if not word:
            if len(current) + len(space) <= limit:
                current += space
        elif len(current) + len(space) + len(word) > limit and len(word) < limit:
            lines.append(current)
            current = word
        elif len(current) + len(space) + len(word) > limit and limit > 1:
            current = _break_before_long_word(lines, current, space, word, limit)
        else:
            current += space + word
    return "\n".join([*lines, current])


def _break_before_long_word(lines: list[str], current: str, space: str, word: str, limit: int) -> str:
    """Place a word that fits on no line: it starts on a new line if its first `limit` characters do not fit."""
    if len(current) + len(space) + 1 > limit or len(current) + len(space) > 0:
        lines.append(current)
        return word
    return current + space + word


def _spaces_and_words(line: str) -> list[tuple[str, str]]:
    """Split a line into words, each with the spaces before it; the last word may be empty."""
    pairs, space, word = [], "", ""
    for char in line:
        if char.isspace() and char != "\xa0":
            if word:
                pairs.append((space, word))
                space, word = "", ""
            space += char
        else:
            word += char
    if space or word:
        pairs.append((space, word))
    return pairs
