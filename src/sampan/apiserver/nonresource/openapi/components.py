"""The shared parts of OpenAPI documents: schemas of kinds, with descriptions, and the parameters of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.schema import openapi, schemas
from sampan.api.scheme import Scheme, type_for
from sampan.apiserver import descriptions

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PREFIX = "#/components/schemas/"
_SAMPLE_OBJECT_DEFINITION, _SAMPLE_LIST_DEFINITION = "io.k8s.api.core.v1.ConfigMap", "io.k8s.api.core.v1.PodList"
"""Definitions that describe the fields which all objects and lists have."""


_KINDS = "x-kubernetes-group-version-kind"
_COMMON_KINDS = ("DeleteOptions", "WatchEvent")
"""Kinds that exist in every group and version."""


class Definitions:
    """Schemas by name, for all served resources."""

    def __init__(self, scheme: Scheme) -> None:
        self._custom: dict[str, Callable[[], dict[str, Any]]] = {}
        """The schemas of custom resources, which are decoded for each document, because they are large."""
        self._names: dict[tuple[str, str, str], str] = {}
        for resource in scheme:
            if resource.is_custom:
                self._add_custom(resource)

    def find_name(self, kind: GroupVersionKind) -> str:
        """Return the name of a kind's schema."""
        own = self._names.get((kind.group, kind.version, kind.kind))
        if own is not None:
            return own
        api_type = type_for(kind)
        if api_type is None:
            raise KeyError(f"{kind.kind} of {kind.api_version} has no schema")
        return schemas.schema_of(api_type).name

    def is_custom(self, name: str) -> bool:
        """Whether a schema is that of a custom resource."""
        return name in self._custom

    def find_list_name(self, resource: Resource) -> str:
        return self.find_name(GroupVersionKind(group=resource.group, version=resource.version, kind=resource.list_kind))

    def closure(self, names: Iterable[str], versions: Iterable[tuple[str, str]]) -> dict[str, dict[str, Any]]:
        """Return these schemas and all that they refer to, ordered by name, for a document about `versions` (pairs of
        group and version)."""
        definitions: dict[str, dict[str, Any]] = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in definitions:
                custom = self._custom.get(name)
                definitions[name] = custom() if custom is not None else _builtin(name)
                pending += references(definitions[name])
        for kind in _COMMON_KINDS:
            if (schema := definitions.get(f"{META}.{kind}")) is not None:
                places = sorted({("", "v1"), *versions})
                schema[_KINDS] = [{"group": group, "version": version, "kind": kind} for group, version in places]
        return dict(sorted(definitions.items()))

    def _add_custom(self, resource: Resource) -> None:
        group = ".".join(reversed(resource.group.split(".")))
        start = f"{group}.{resource.version}"
        name, list_name = f"{start}.{resource.kind}", f"{start}.{resource.list_kind}"
        gvk = (resource.group, resource.version, resource.kind)
        self._names[gvk] = name
        self._names[resource.group, resource.version, resource.list_kind] = list_name
        self._custom[name] = partial(_custom, resource)
        self._custom[list_name] = partial(_custom_list, resource, name)


def references(node: Any) -> Iterator[str]:
    """Return the names of the schemas that a schema refers to."""
    if isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_PREFIX)
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def _builtin(name: str) -> dict[str, Any]:
    definition = openapi.definition(schemas.definition(name))
    texts = descriptions.describe_definition(name)
    if texts.description:
        definition = {"description": texts.description, **definition}
    for field, schema in definition.get("properties", {}).items():
        text = texts.properties.get(field)
        if text is not None and text.description:
            schema["description"] = text.description
        elif list(schema) == ["allOf"]:  # without a description, a plain reference suffices
            definition["properties"][field] = schema["allOf"][0]
    return definition


def _custom(resource: Resource) -> dict[str, Any]:
    source = dict(
        _add_int_or_string_types((resource.schema.openapi if resource.schema is not None else None) or _ANY_OBJECT)
    )
    metadata = {"allOf": [{"$ref": f"{_PREFIX}{META}.ObjectMeta"}], **_text("metadata")}
    own = source.get("properties") or {}
    source["properties"] = {**own, **_title(), "metadata": metadata}
    return {**source, **_marks(resource, resource.kind)}


_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def _add_int_or_string_types(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a custom resource as it is published: with the types of values that are an integer or a
    string."""
    node = dict(source)
    if node.get("x-kubernetes-int-or-string") and "anyOf" not in node and "allOf" not in node:
        node["anyOf"] = _INT_OR_STRING
    if isinstance(properties := node.get("properties"), dict):
        node["properties"] = {name: _add_int_or_string_types(child) for name, child in properties.items()}
    for below in ("items", "additionalProperties"):
        if isinstance(child := node.get(below), dict):
            node[below] = _add_int_or_string_types(child)
    return node


def _custom_list(resource: Resource, name: str) -> dict[str, Any]:
    metadata = {"allOf": [{"$ref": f"{_PREFIX}{META}.ListMeta"}], **_text("metadata", _SAMPLE_LIST_DEFINITION)}
    link = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
    description = f"List of {resource.plural}. More info: {link}"
    items = {"type": "array", "items": {"$ref": _PREFIX + name}, "description": description}
    return {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {**_title(), "items": items, "metadata": metadata},
        **_marks(resource, resource.list_kind),
    }


def _title() -> dict[str, Any]:
    return {field: {"type": "string", **_text(field)} for field in ("apiVersion", "kind")}


def _text(field: str, definition: str = _SAMPLE_OBJECT_DEFINITION) -> dict[str, str]:
    like_field = descriptions.describe_definition(definition).properties.get(field)
    return {"description": like_field.description} if like_field is not None and like_field.description else {}


def _marks(resource: Resource, kind: str) -> dict[str, Any]:
    gvk = {"group": resource.group, "version": resource.version, "kind": kind}
    marks: dict[str, Any] = {_KINDS: [gvk]}
    if resource.selectable:
        marks["x-kubernetes-selectable-fields"] = [{"fieldPath": field.label} for field in resource.selectable]
    return marks


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    description: str
    place: str = "query"


def _make_parameters(type: str, **descriptions: str) -> list[Parameter]:
    return [Parameter(name, type, description) for name, description in descriptions.items()]


def _sort_parameters(*groups: list[Parameter]) -> tuple[Parameter, ...]:
    return tuple(sorted((parameter for group in groups for parameter in group), key=lambda parameter: parameter.name))


NAME = Parameter("name", "string", "the object's name", "path")
NAMESPACE = Parameter("namespace", "string", "the namespace of the objects", "path")
PATH_BEYOND = Parameter("path", "string", "path to use in the proxied request", "path")
PRETTY = Parameter("pretty", "string", "If 'true', the response is indented.")

_DRY_RUN = _make_parameters(
    "string", dryRun="If 'All', the request passes every step of processing, and nothing is stored."
)
_WRITE = [
    *_DRY_RUN,
    *_make_parameters(
        "string",
        fieldManager="Name of the field manager that owns the written fields, at most 128 printable characters.",
        fieldValidation="How unknown and duplicate fields are handled: Ignore, Warn (the default) or Strict.",
    ),
]
_SELECT = [
    *_make_parameters(
        "string",
        **{"continue": "Continue token of the previous page of the list."},
        fieldSelector="Field selector that restricts the list of returned objects.",
        labelSelector="Label selector that restricts the list of returned objects.",
        resourceVersion="Resource version from which the request is served.",
        resourceVersionMatch="How resourceVersion is applied: Exact or NotOlderThan.",
        shardSelector="Shard selector that restricts the list of returned objects.",
    ),
    *_make_parameters(
        "integer",
        limit="Largest number of objects in one page of the list.",
        timeoutSeconds="Timeout of the request in seconds.",
    ),
    *_make_parameters(
        "boolean", sendInitialEvents="Whether a watch starts with ADDED events for all existing objects."
    ),
]
_WATCH = _make_parameters(
    "boolean",
    allowWatchBookmarks="Whether a watch may send BOOKMARK events, which contain only a resource version.",
    watch="Watch for changes instead of returning a list.",
)
_DELETE = [
    *_DRY_RUN,
    *_make_parameters("integer", gracePeriodSeconds="Seconds before the object is deleted; 0 deletes it immediately."),
    *_make_parameters(
        "boolean",
        ignoreStoreReadErrorWithClusterBreakingPotential="Delete an object that cannot be read, ignoring finalizers.",
        orphanDependents="Deprecated: use propagationPolicy. Whether dependents are orphaned.",
    ),
    *_make_parameters(
        "string", propagationPolicy="How dependents are garbage collected: Orphan, Background or Foreground."
    ),
]

WRITE = _sort_parameters(_WRITE)
PATCH = _sort_parameters(
    _WRITE,
    _make_parameters(
        "boolean", force="Force apply requests: take over fields that other field managers own. Only for apply patches."
    ),
)
LIST = _sort_parameters(_SELECT, _WATCH)
DELETE = _sort_parameters(_DELETE)
DELETE_COLLECTION = _sort_parameters(_SELECT, _DELETE)

_STREAMS = _make_parameters(
    "boolean",
    stderr="Redirect the standard error stream of the container.",
    stdin="Redirect the standard input stream of the container.",
    stdout="Redirect the standard output stream of the container.",
    tty="Allocate a terminal for the command.",
)
_CONTAINER = _make_parameters("string", container="Name of the container; optional if the pod has only one.")
CONNECT: dict[str, tuple[Parameter, ...]] = {
    "attach": _sort_parameters(_STREAMS, _CONTAINER),
    "exec": _sort_parameters(
        _STREAMS,
        _CONTAINER,
        _make_parameters("string", command="Command to run and its arguments, one parameter each."),
    ),
    "portforward": _sort_parameters(
        _make_parameters("integer", ports="Ports to forward; required when WebSocket is used.")
    ),
    "proxy": _sort_parameters(_make_parameters("string", path="Path to use in the proxied request.")),
}
"""The query parameters of connect requests (exec, attach, proxy …) by subresource."""
LOG = _sort_parameters(
    _CONTAINER,
    _make_parameters(
        "boolean",
        follow="Follow the log stream.",
        insecureSkipTLSVerifyBackend="Do not verify the serving certificate of the kubelet.",
        previous="Return the log of the previous, terminated container.",
        timestamps="Prefix each line with its RFC 3339 timestamp.",
    ),
    _make_parameters(
        "integer",
        limitBytes="Largest number of bytes to return.",
        sinceSeconds="Return only lines of the last this many seconds.",
        tailLines="Number of lines to return from the end of the log.",
    ),
    _make_parameters("string", stream="Stream of the container to return: All, Stdout or Stderr."),
)
