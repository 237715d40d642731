"""OpenAPI documents of other servers: which of their contents are used, and how they are merged. Pure.

Of a v2 document only the paths of the registered group version are used, with the definitions and parameters that they
refer to. Keywords that are unknown or have values of a wrong type are dropped, so that no document can break the merged
one. The counterpart is `k8s.io/kube-openapi/pkg/aggregator`.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from sampan.api import limits
from sampan.api.codec.pieces import PieceDecoder, RepeatedKeyError

GVK = "x-kubernetes-group-version-kind"
_DEFINITION, _PARAMETER = "#/definitions/", "#/parameters/"
_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch"})
_HASH = re.compile(r"[A-Za-z0-9_-]{1,256}")

_TEXTS = frozenset({"description", "format", "title", "pattern", "type"})
_NUMBERS = frozenset(
    {
        *("maximum", "minimum", "multipleOf", "maxLength", "minLength", "maxItems", "minItems", "maxProperties"),
        "minProperties",
    }
)
_SWITCHES = frozenset({"exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "readOnly"})
_VALUES = frozenset({"default", "example"})

Json = dict[str, Any]


class InvalidOpenApi(ValueError):
    """An OpenAPI document of another server is invalid and therefore not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOpenApi:
    """The OpenAPI documents of one group version that another server serves, as far as this server publishes them."""

    v3_hash: str | None = None
    """The hash of the v3 document, which may be empty; None if there is no such document."""
    v3: bytes = b""
    """The v3 document of a server that publishes only v2, converted from that; empty if the server has its own."""
    v2: bytes = b""
    """The v2 document with only the paths of the group version; empty if there is none."""
    v2_etag: str = ""
    """The ETag of the document that the server sent."""
    v2_hash: str = ""


class _IndexEntry(msgspec.Struct):
    serverRelativeURL: str = ""


class _Index(msgspec.Struct):
    paths: dict[str, _IndexEntry] = {}


class _Info(msgspec.Struct):
    title: str = ""
    version: str = ""


class _Document(msgspec.Struct):
    info: _Info = msgspec.field(default_factory=_Info)
    paths: dict[str, msgspec.Raw] = {}
    definitions: dict[str, msgspec.Raw] = {}
    parameters: dict[str, msgspec.Raw] = {}


_decode_index = msgspec.json.Decoder(_Index).decode
_decode_document = msgspec.json.Decoder(_Document).decode
_pieces = PieceDecoder(msgspec.json.Decoder)


def v3_hash(body: bytes, name: str) -> str | None:
    """Return the hash that an index of v3 documents has for the document of that name, None if it does not list it.
    Raise `InvalidOpenApi`."""
    try:
        entry = _decode_index(body).paths.get(name)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidOpenApi(f"the index of OpenAPI v3 is invalid: {error}") from None
    if entry is None:
        return None
    try:
        (text,) = parse_qs(urlsplit(entry.serverRelativeURL).query).get("hash", [""])
    except ValueError:
        return ""
    return text if _HASH.fullmatch(text) else ""


def extract_part(body: bytes, group: str, version: str) -> bytes:
    """Return the part of a v2 document that describes a group version, as JSON; empty if there is none. Raise
    `InvalidOpenApi`."""
    try:
        return _extract_part(body, f"/apis/{group}/{version}/")
    except InvalidOpenApi:
        raise
    except (msgspec.MsgspecError, RepeatedKeyError, ValueError, RecursionError) as error:
        raise InvalidOpenApi(f"the OpenAPI v2 document is invalid: {error}") from None


def _extract_part(body: bytes, prefix: str) -> bytes:
    source = _decode_document(body)
    reader = _PartReader(source)
    paths = {path: reader.path_item(raw) for path, raw in source.paths.items() if path.startswith(prefix)}
    if not paths:
        return b""
    part = {
        "info": msgspec.to_builtins(source.info),
        "paths": paths,
        "definitions": reader.definitions(),
        "parameters": reader.parameters(),
    }
    return encode_document(part)


def read_part(raw: bytes) -> Json:
    """Decode the JSON that `extract_part` has returned. Its members are decoded one by one, because a call of msgspec
    holds the interpreter lock until it returns."""
    source = _decode_document(raw)
    part: Json = {"info": msgspec.to_builtins(source.info)}
    for key in ("paths", "definitions", "parameters"):
        part[key] = {name: msgspec.json.decode(value) for name, value in getattr(source, key).items()}
    return part


def encode_document(document: Json) -> bytes:
    """Return a document as JSON. The members of its objects are encoded one by one, as `read_part` decodes them."""
    encode = msgspec.json.Encoder().encode
    pieces = [b"{"]
    for key, value in document.items():
        pieces += (encode(key), b":")
        if isinstance(value, dict):
            pieces.append(b"{")
            for name, item in value.items():
                pieces += (encode(name), b":", encode(item), b",")
            pieces[-1:] = (b"}",) if value else (b"{}",)
        else:
            pieces.append(encode(value))
        pieces.append(b",")
    pieces[-1:] = (b"}",) if document else (b"{}",)
    return b"".join(pieces)


class _PartReader:
    """Reads parts of a document and follows their references."""

    def __init__(self, source: _Document) -> None:
        self._source = source
        self._bytes = self._values = 0
        self._definitions: dict[str, Json | None] = {}
        """Definitions that are referred to; None for those that have not been read yet."""
        self._parameters: dict[str, Json] = {}

    def path_item(self, raw: msgspec.Raw) -> Json:
        source = self._decode(raw)
        item: Json = {}
        for key, value in source.items():
            if key in _METHODS and isinstance(value, dict):
                item[key] = self._operation(value)
        return {**item, **self._parameter_list(source)}

    def definitions(self) -> dict[str, Json]:
        while pending := [name for name, schema in self._definitions.items() if schema is None]:
            for name in pending:
                raw = self._source.definitions.get(name)
                self._definitions[name] = self._schema(self._decode(raw)) if raw is not None else {}
        return {name: schema for name, schema in self._definitions.items() if schema is not None}

    def parameters(self) -> dict[str, Json]:
        return self._parameters

    def _decode(self, raw: msgspec.Raw) -> Json:
        content = bytes(raw)
        self._bytes += len(content)
        self._values += 1 + content.count(b",")
        if self._bytes > limits.MERGED_OPENAPI_BYTES or self._values > limits.MERGED_OPENAPI_VALUES:
            raise InvalidOpenApi("the OpenAPI v2 document of the group version is too large")
        value = _pieces.decode(content, Any)
        _check_depth(value)
        return value if isinstance(value, dict) else {}

    def _operation(self, source: Json) -> Json:
        operation = {key: source[key] for key in ("description", "operationId") if isinstance(source.get(key), str)}
        for key in ("consumes", "produces", "schemes", "tags"):
            if isinstance(values := source.get(key), list):
                operation[key] = _texts(values)
        responses = source.get("responses")
        operation["responses"] = {
            code: self._response(value)
            for code, value in (responses.items() if isinstance(responses, dict) else ())
            if isinstance(value, dict)
        }
        return {**operation, **self._parameter_list(source), **_extensions(source)}

    def _response(self, source: Json) -> Json:
        description = source.get("description")
        response: Json = {"description": description if isinstance(description, str) else ""}
        if isinstance(schema := source.get("schema"), dict):
            response["schema"] = self._schema(schema)
        return response

    def _parameter_list(self, source: Json) -> Json:
        values = source.get("parameters")
        if not isinstance(values, list):
            return {}
        parameters = [self._parameter(value) for value in values if isinstance(value, dict)]
        return {"parameters": [parameter for parameter in parameters if parameter is not None]}

    def _parameter(self, source: Json) -> Json | None:
        reference = source.get("$ref")
        if isinstance(reference, str):
            return self._shared_parameter(reference)
        place, name = source.get("in"), source.get("name")
        if place not in ("body", "path", "query") or not isinstance(name, str):
            return None
        parameter: Json = {"in": place, "name": name, **_keywords(source)}
        if source.get("required") is True:
            parameter["required"] = True
        if place == "body":
            schema = source.get("schema")
            parameter["schema"] = self._schema(schema) if isinstance(schema, dict) else {}
        return parameter

    def _shared_parameter(self, reference: str) -> Json | None:
        name = reference.removeprefix(_PARAMETER)
        if name not in self._parameters:
            raw = self._source.parameters.get(name)
            source = self._decode(raw) if raw is not None else {}
            parameter = self._parameter(source) if "$ref" not in source else None
            if parameter is None:
                return None
            self._parameters[name] = parameter
        return {"$ref": _PARAMETER + name}

    def _schema(self, source: Json) -> Json:
        schema = {**_keywords(source), **_extensions(source)}
        if isinstance(reference := source.get("$ref"), str) and reference.startswith(_DEFINITION):
            self._definitions.setdefault(reference.removeprefix(_DEFINITION), None)
            schema["$ref"] = reference
        if isinstance(required := source.get("required"), list):
            schema["required"] = _texts(required)
        if isinstance(properties := source.get("properties"), dict):
            schema["properties"] = {
                name: self._schema(value) for name, value in properties.items() if isinstance(value, dict)
            }
        for key in ("items", "additionalProperties"):
            if isinstance(child := source.get(key), dict):
                schema[key] = self._schema(child)
        if isinstance(parts := source.get("allOf"), list):
            schema["allOf"] = [self._schema(part) for part in parts if isinstance(part, dict)]
        return schema


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(limits.MERGED_OPENAPI_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict | list):
                below.extend(item.values() if isinstance(item, dict) else item)
        if not below:
            return
        level = below
    raise InvalidOpenApi(f"the OpenAPI v2 document has more than {limits.MERGED_OPENAPI_DEPTH} levels")


def _keywords(source: Json) -> Json:
    """Return the keywords of a schema or parameter that contain no schemas."""
    keywords: Json = {}
    for key, value in source.items():
        is_valid = (
            key in _VALUES
            or (key in _TEXTS and isinstance(value, str))
            or (key in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool))
            or (key in _SWITCHES and isinstance(value, bool))
            or (key == "enum" and isinstance(value, list))
        )
        if is_valid:
            keywords[key] = value
    return keywords


def _extensions(source: Json) -> Json:
    return {key: value for key, value in source.items() if key.startswith("x-")}


def _texts(values: list[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


# -- the merged document ---------------------------------------------------------------------------------------------


def merge_documents(own: Json, parts: Iterable[bytes]) -> Json:
    """Return the own v2 document with the parts of other servers, by priority. Paths that are already there are kept.
    A definition or parameter whose name has another content already is renamed."""
    merged = {**own, **{key: dict(own[key]) for key in ("paths", "definitions", "parameters")}}
    for raw in parts:
        part = read_part(raw)
        if paths := {path: item for path, item in part["paths"].items() if path not in merged["paths"]}:
            _merge(merged, {**part, "paths": paths})
    return merged


def _merge(merged: Json, part: Json) -> None:
    renames = _Renames()
    renames.resolve(_DEFINITION, merged["definitions"], part["definitions"], _is_same_definition)
    renames.resolve(_PARAMETER, merged["parameters"], part["parameters"], operator.eq)
    for kind, prefix in (("definitions", _DEFINITION), ("parameters", _PARAMETER)):
        for name, value in part[kind].items():
            target, renamed = renames.name(prefix, name), renames.rewrite(value)
            present = merged[kind].get(target)
            merged[kind][target] = renamed if present is None else _merge_kinds(present, renamed)
    for path, item in part["paths"].items():
        merged["paths"][path] = renames.rewrite(item)


@dataclass(slots=True)
class _Renames:
    references: dict[str, str] = field(default_factory=dict)
    """The new name of each schema reference that is renamed."""

    def resolve(
        self, prefix: str, present: Mapping[str, Json], added: Mapping[str, Json], is_same: Callable[[Json, Json], bool]
    ) -> None:
        """Choose a new name for each definition or parameter in `added` whose name has another content in `present`."""
        names = {*present, *added}
        for name, value in added.items():
            target, number = name, 1
            while target in present and not is_same(present[target], value):
                number += 1
                target = f"{name}_v{number}"
            while target != name and target not in present and target in names:
                number += 1
                target = f"{name}_v{number}"
            if target != name:
                names.add(target)
                self.references[prefix + name] = prefix + target

    def name(self, prefix: str, name: str) -> str:
        return self.references.get(prefix + name, prefix + name).removeprefix(prefix)

    def rewrite(self, value: Any) -> Any:
        if not self.references:
            return value
        if isinstance(value, list):
            return [self.rewrite(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self.references.get(item, item) if key == "$ref" and isinstance(item, str) else self.rewrite(item)
            for key, item in value.items()
        }


def _is_same_definition(present: Json, added: Json) -> bool:
    """Whether two definitions are equal except for the group, version and kind lists that they declare."""
    return _without_kinds(present) == _without_kinds(added)


def _without_kinds(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key != GVK}


def _merge_kinds(present: Json, added: Json) -> Json:
    """Return the definition that is present, extended by the group, version and kind list of the added one."""
    kinds, more = present.get(GVK), added.get(GVK)
    if not isinstance(more, list) or not isinstance(kinds or [], list):
        return present
    return {**present, GVK: [*(kinds or []), *(kind for kind in more if kind not in (kinds or []))]}


def digest(data: bytes) -> str:
    return hashlib.sha512(data).hexdigest().upper()
