"""Completion and descriptions for a YAML editor, from the OpenAPI v3 documents of the cluster.

The text is usually incomplete, so that it is not parsed as YAML: the path of the cursor follows from the indentation of
the lines before it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.dashboard.request_checks import read_json_body
from sampan.dashboard.responses import json_response
from sampan.dashboard.views.api_reader import ApiReader, decode, group_path
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.transport import Request
from sampan.machinery.client.user_api import UserApi

_TEXT_BYTES = 1 << 20
_INLINE_CHARACTERS = 8 << 10
"""The maximum length of a text that is processed in the event loop, which takes about 5 ms. Longer texts are processed
in a thread."""
_COMPLETIONS = 200
_DESCRIPTION_LENGTH = 2000
_DEPTH = 40
_DOCUMENTS = 8
_MAX_DOCUMENTS_PER_USER = 32
_GROUP_VERSION = re.compile(r"(?:[a-z0-9.-]{1,253}/)?[a-z0-9]{1,63}")
_HEAD = re.compile(r"^(apiVersion|kind):[ \t]*[\"']?([A-Za-z0-9./-]+)", re.MULTILINE)
_KEY = re.compile(r"(?P<key>[\w./$-]+|\"[^\"]*\"|'[^']*')\s*:(?:\s+(?P<value>.*))?$")
_PARTIAL_KEY = re.compile(r"[\w./-]*")
_BLOCK_SCALAR = re.compile(r"[|>][0-9+-]*\s*(?:#.*)?$")
_SEPARATOR = re.compile(r"^---(?:[ \t].*)?$")
_REFERENCE = "#/components/schemas/"

Schema = Mapping[str, Any]


class CompletionRequest(msgspec.Struct):
    text: str
    offset: int


_decode_request = msgspec.json.Decoder(CompletionRequest).decode


@dataclass(frozen=True, slots=True)
class CursorContext:
    path: tuple[str, ...]
    """The keys that lead to the mapping of the cursor; a list item is `[]`."""
    key: str
    """The key on the cursor's line, complete or partial."""
    is_value: bool
    """Whether the cursor is in the value of the key."""
    typed: str
    """The part of the word at the cursor that has been typed."""
    api_version: str
    kind: str


class YamlCompletion:
    def __init__(self) -> None:
        self._components: OrderedDict[bytes, Mapping[str, Schema]] = OrderedDict()
        """The schemas of documents by the hash of the document, which users of one cluster share."""
        self._hashes: WeakKeyDictionary[UserApi, dict[str, bytes]] = WeakKeyDictionary()

    async def view(self, request: HttpRequest, api: UserApi) -> StreamResponse | None:
        try:
            message = _decode_request(await read_json_body(request, 2 * _TEXT_BYTES))
        except JSON_ERRORS:
            raise errors.bad_request("the body is not a request for completion") from None
        if len(message.text) > _TEXT_BYTES:
            raise errors.request_entity_too_large(f"limit is {_TEXT_BYTES}")
        offset = max(0, min(message.offset, len(message.text)))
        if len(message.text) > _INLINE_CHARACTERS:
            context = await asyncio.to_thread(cursor_context, message.text, offset)
        else:
            context = cursor_context(message.text, offset)
        if context is None:
            return json_response({"from": offset, "completions": [], "hover": None})
        components = await self._schemas(api, context.api_version)
        schema = schema_of_kind(components, context.api_version, context.kind)
        if schema is None or (not context.path and context.is_value and context.key in ("apiVersion", "kind")):
            options = await _head_completions(ApiReader(api), context)
        else:
            options = completions(components, schema, context)
        chosen = [option for option in options if option["label"].lower().startswith(context.typed.lower())]
        return json_response(
            {
                "from": offset - len(context.typed),
                "completions": chosen[:_COMPLETIONS],
                "hover": _hover(components, schema, context) if schema is not None else None,
            }
        )

    async def _schemas(self, api: UserApi, api_version: str) -> Mapping[str, Schema]:
        """Return the schemas of a group version; empty if it has none or the person may not read them."""
        if not _GROUP_VERSION.fullmatch(api_version):
            return {}
        hashes = self._hashes.setdefault(api, {})
        if (previous := self._components.get(hashes.get(api_version, b""))) is not None:
            return previous
        request = Request(
            method="GET", path=f"/openapi/v3{group_path(api_version)}", headers={"Accept": "application/json"}
        )
        try:
            body = (await api.send(request)).body()
        except errors.ApiError:
            return {}
        digest = hashlib.sha256(body).digest()
        if digest not in self._components:
            document = await asyncio.to_thread(decode, body)
            self._components[digest] = (document.get("components") or {}).get("schemas") or {}
            if len(self._components) > _DOCUMENTS:
                self._components.popitem(last=False)
        if len(hashes) >= _MAX_DOCUMENTS_PER_USER:
            hashes.clear()
        hashes[api_version] = digest
        return self._components[digest]


# -- the cursor ------------------------------------------------------------------------------------------------------


def cursor_context(text: str, offset: int) -> CursorContext | None:
    """Return where the cursor is; None inside of a comment or of a block of text."""
    lines_before = text[:offset].split("\n")
    rest_of_line = text[offset:].partition("\n")[0]
    start = max((number for number, line in enumerate(lines_before[:-1]) if _SEPARATOR.match(line)), default=-1) + 1
    document = _document_around(text, offset)
    head = {match.group(1): match.group(2) for match in _HEAD.finditer(document)}
    stack: list[tuple[int, str]] = []
    block_indent = -1
    for line in lines_before[start:-1]:
        block_indent = _push(stack, line, block_indent)
    typed_line = lines_before[-1]
    indent = len(typed_line) - len(typed_line.lstrip(" "))
    if typed_line.lstrip(" ").startswith("#") or (0 <= block_indent < indent):
        return None
    indent = _enter_items(stack, typed_line, indent)
    content = typed_line[indent:]
    _pop_for_key(stack, indent)
    path = tuple(segment for _, segment in stack)[-_DEPTH:]
    match = _KEY.match(content)
    if match is not None:
        value = (match.group("value") or "").strip("\"'")
        return CursorContext(path, match.group("key").strip("\"'"), True, value, *_head(head))
    backwards = _PARTIAL_KEY.match(content[::-1])  # a pattern anchored at the end would take quadratic time
    typed = backwards.group()[::-1] if backwards is not None else ""
    whole = _KEY.match(typed + rest_of_line)
    key = whole.group("key") if whole is not None else typed
    return CursorContext(path, key.strip("\"'"), False, typed, *_head(head))


def _head(head: Mapping[str, str]) -> tuple[str, str]:
    return head.get("apiVersion", ""), head.get("kind", "")


def _document_around(text: str, offset: int) -> str:
    start = text.rfind("\n---", 0, offset) + 1
    end = text.find("\n---", offset)
    return text[start : end if end >= 0 else len(text)]


def _push(stack: list[tuple[int, str]], line: str, block_indent: int) -> int:
    """Update the stack of open keys with one line. Return the indentation of the block scalar that the line starts or
    continues; -1 if there is none."""
    stripped = line.strip()
    if not stripped or stripped.startswith("#"):
        return block_indent
    indent = len(line) - len(line.lstrip(" "))
    if 0 <= block_indent < indent:
        return block_indent
    indent = _enter_items(stack, line, indent)
    match = _KEY.match(line[indent:])
    if match is None:
        return -1
    _pop_for_key(stack, indent)
    stack.append((indent, match.group("key").strip("\"'")))
    return indent if _BLOCK_SCALAR.match(match.group("value") or "") else -1


def _enter_items(stack: list[tuple[int, str]], line: str, indent: int) -> int:
    """Enter the list items whose dashes start a line. Return the indentation of the content after the dashes."""
    while line.startswith("- ", indent) or (indent == len(line) - 1 and line[indent] == "-"):
        _pop_for_item(stack, indent)
        stack.append((indent, "[]"))
        indent += 2
    return indent


def _pop_for_item(stack: list[tuple[int, str]], indent: int) -> None:
    """Leave the keys that end before a list item. The key of a list may have the same indentation as its items."""
    while stack and (stack[-1][0] > indent or (stack[-1][0] == indent and stack[-1][1] == "[]")):
        stack.pop()


def _pop_for_key(stack: list[tuple[int, str]], indent: int) -> None:
    while stack and stack[-1][0] >= indent:
        stack.pop()


# -- schemas ---------------------------------------------------------------------------------------------------------


def schema_of_kind(components: Mapping[str, Schema], api_version: str, kind: str) -> Schema | None:
    group, _, version = api_version.rpartition("/")
    for schema in components.values():
        for row in schema.get("x-kubernetes-group-version-kind") or ():
            if (row.get("group", ""), row.get("version"), row.get("kind")) == (group, version, kind):
                return schema
    return None


def resolve(components: Mapping[str, Schema], schema: Schema) -> Schema:
    """Follow a reference and return the schema. A description beside the reference replaces that of the schema, because
    it is more specific."""
    for _ in range(_DEPTH):
        references = [schema, *(part for part in schema.get("allOf") or () if isinstance(part, dict))]
        reference = next((part["$ref"] for part in references if "$ref" in part), None)
        if reference is None:
            return schema
        target = components.get(str(reference).removeprefix(_REFERENCE), {})
        described = {"description": schema["description"]} if schema.get("description") else {}
        schema = {**target, **described}
    return schema


def schema_at(components: Mapping[str, Schema], schema: Schema, path: tuple[str, ...]) -> Schema | None:
    for segment in path:
        schema = resolve(components, schema)
        if segment == "[]":
            inner = schema.get("items")
        else:
            inner = (schema.get("properties") or {}).get(segment) or schema.get("additionalProperties")
        if not isinstance(inner, dict):
            return None
        schema = inner
    return resolve(components, schema)


def completions(components: Mapping[str, Schema], schema: Schema, context: CursorContext) -> list[dict[str, str]]:
    parent = schema_at(components, schema, context.path)
    if parent is None:
        return []
    if context.is_value:
        own = schema_at(components, parent, (context.key,))
        values = (own or {}).get("enum") or (("true", "false") if (own or {}).get("type") == "boolean" else ())
        return [{"label": str(value), "type": "value", "insert": str(value)} for value in values]
    if parent.get("enum"):
        return [{"label": str(value), "type": "value", "insert": str(value)} for value in parent["enum"]]
    required = set(parent.get("required") or ())
    options = []
    for name, source in sorted((parent.get("properties") or {}).items(), key=lambda entry: entry[0]):
        own = resolve(components, source)
        type_name = type_text(components, own)
        options.append(
            {
                "label": name,
                "type": "property",
                "detail": f"{type_name}, required" if name in required else type_name,
                "description": str(own.get("description", ""))[:_DESCRIPTION_LENGTH],
                "insert": f"{name}:" if own.get("type") in ("object", "array") else f"{name}: ",
            }
        )
    return options


def type_text(components: Mapping[str, Schema], schema: Schema, depth: int = _DEPTH) -> str:
    """Return the name of a type. Schemas of an aggregated API server may refer to themselves, so that the depth of
    lists and maps is limited."""
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        if not isinstance(items, dict) or depth <= 0:
            return "[]"
        return f"[]{type_text(components, resolve(components, items), depth - 1)}"
    values = schema.get("additionalProperties")
    if kind == "object" and isinstance(values, dict) and not schema.get("properties") and depth > 0:
        return f"map[string]{type_text(components, resolve(components, values), depth - 1)}"
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return "int-or-string"
    return str(schema.get("format") or kind or "object")


def _hover(components: Mapping[str, Schema], schema: Schema, context: CursorContext) -> dict[str, str] | None:
    if not context.key:
        return None
    own = schema_at(components, schema, (*context.path, context.key))
    if own is None:
        return None
    path = ".".join((*context.path, context.key)).replace(".[]", "[]")
    return {
        "path": path,
        "type": type_text(components, own),
        "description": str(own.get("description", ""))[:_DESCRIPTION_LENGTH],
    }


async def _head_completions(reader: ApiReader, context: CursorContext) -> list[dict[str, str]]:
    """Complete apiVersion and kind from discovery."""
    if context.path:
        return []
    if context.is_value and context.key == "kind" and _GROUP_VERSION.fullmatch(context.api_version):
        document = await reader.get(group_path(context.api_version)) or {}
        kinds = {row["kind"] for row in document.get("resources") or () if "/" not in row["name"]}
        return [{"label": kind, "type": "value", "insert": kind} for kind in sorted(kinds)]
    if context.is_value and context.key == "apiVersion":
        groups = (await reader.get("/apis") or {}).get("groups") or ()
        versions = ["v1", *sorted(row["groupVersion"] for group in groups for row in group["versions"])]
        return [{"label": version, "type": "value", "insert": version} for version in versions]
    if context.is_value:
        return []
    return [{"label": key, "type": "property", "insert": f"{key}: "} for key in ("apiVersion", "kind", "metadata")]
