"""Encoding and decoding of objects on the client side, for kinds with and without a generated type; lookup of a
built-in resource by its type or name, and the request path of an object."""

from functools import cache
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.resources.resource_table import BUILT_IN
from sampan.api.scheme import type_for
from sampan.api.types.meta_v1 import ListMeta, PartialObjectMetadata
from sampan.api.unstructured import Unstructured


@cache
def _rows() -> dict[tuple[str, str], list[Resource]]:
    """Return the built-in resources by group and plural, the preferred version first."""
    resources: dict[tuple[str, str], list[Resource]] = {}
    versions = sorted(BUILT_IN, key=lambda version: -version.version_priority)
    for version in versions:
        for row in version.resources:
            resources.setdefault((row.group, row.plural), []).append(row)
    return resources


@cache
def builtin(plural: str, group: str = "", version: str = "") -> Resource:
    """Return a built-in resource, in the preferred version unless one is named. Raise LookupError."""
    for row in _rows().get((group, plural), ()):
        if version in ("", row.version):
            return row
    raise LookupError(f"there is no built-in resource {plural!r} in group {group!r} {version}".rstrip())


_by_type: dict[object, Resource] = {}


def resource_of(type: type[Any]) -> Resource:
    """Return the resource whose objects have this generated type. Raise LookupError."""
    resource = _by_type.get(type)
    if resource is None:
        resource = _by_type[type] = _resource_of(type())
    return resource


def _resource_of(empty: Any) -> Resource:
    for rows in _rows().values():
        for row in rows:
            if (row.api_version, row.kind) == (empty.apiVersion, empty.kind):
                return row
    raise LookupError(f"{empty.kind} of {empty.apiVersion} is not a built-in resource")


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    namespace_part = f"/namespaces/{namespace}" if namespace and resource.namespaced else ""
    name_part = f"/{name}" if name else ""
    subresource_part = f"/{subresource}" if subresource else ""
    return f"{prefix}/{resource.version}{namespace_part}/{resource.plural}{name_part}{subresource_part}"


class ObjectCodec:
    """`kind` is the kind on the wire; `type` is its Struct, None for `Unstructured`."""

    __slots__ = ("kind", "type")

    def __init__(self, kind: GroupVersionKind, type: type[Any] | None) -> None:
        self.kind, self.type = kind, type

    @property
    def is_metadata(self) -> bool:
        """Whether only the metadata of the objects is requested."""
        return self.type is PartialObjectMetadata

    def encode(self, obj: Any) -> bytes:
        return json.encode(obj.to_value() if isinstance(obj, Unstructured) else obj)

    def decode(self, raw: bytes) -> Any:
        if self.type is not None:
            return json.read(raw, self.type)
        obj = Unstructured.from_value(json.read_any(raw))
        obj.kind, obj.apiVersion = obj.kind or self.kind.kind, obj.apiVersion or self.kind.api_version
        return obj

    def decode_list(self, raw: bytes) -> tuple[ListMeta, list[Any]]:
        page = _list_decoder.decode(raw)
        return page.metadata, [self.decode(bytes(item)) for item in page.items or ()]


class _RawList(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


_list_decoder = msgspec.json.Decoder(_RawList)
_METADATA = GroupVersionKind(group="meta.k8s.io", version="v1", kind="PartialObjectMetadata")


@cache
def _codec(kind: GroupVersionKind) -> ObjectCodec:
    return ObjectCodec(kind, type_for(kind))


METADATA = _codec(_METADATA)
"""The codec of PartialObjectMetadata, which reads the metadata of the objects of any resource."""


def codec_of(resource: Resource) -> ObjectCodec:
    return ObjectCodec(resource.gvk, None) if resource.is_custom else _codec(resource.gvk)


def codec_of_subresource(resource: Resource, name: str) -> ObjectCodec:
    """Return the codec of the kind that the subresource reads and writes."""
    subresource = resource.subresource(name)
    if subresource is None:
        raise ValueError(f"{resource.qualified} has no subresource {name!r}")
    kind = resource.kind_of(subresource)
    return codec_of(resource) if kind == resource.gvk else _codec(kind)
