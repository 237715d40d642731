"""The object of a request as a JSON value in a given API version, for webhooks and expressions.

Admission works on objects in the storage version, and on custom resources in the version of the request. A webhook or
policy sees them in the version of the request, or in another version that its rules name, and may return a changed
value in that version.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.unstructured import Unstructured
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.response.responses import VersionConverter


class VersionedObjects:
    """Converts the objects of requests to the version of `resource`, and converts changed objects back to their own
    version."""

    def __init__(self, registry: Registry, resource: Resource) -> None:
        self._registry, self._resource = registry, resource
        self._converter = VersionConverter(registry)

    def kind_of(self, obj: Any) -> GroupVersionKind:
        """Return the kind that a webhook sees: that of the resource, or of a subresource with a kind of its own."""
        if obj is None or self._is_stored_kind(obj):
            return self._resource.gvk
        group, _, version = obj.apiVersion.rpartition("/")
        return GroupVersionKind(group=group, version=version, kind=obj.kind)

    async def value(self, obj: Any) -> dict[str, Any] | None:
        """Return the object as a JSON value, which the caller may change; None for no object. Raise ConversionFailed if
        a webhook that converts a custom resource fails."""
        if obj is None:
            return None
        if not self._is_stored_kind(obj):
            own: dict[str, Any] = json.to_value(obj)
            return own
        raw = self._registry.open_store(self._resource).codec.encode(obj)
        return await self._convert(self._converter.to_requested_value(self._resource, raw), self._resource)

    async def encode(self, obj: Any) -> bytes | None:
        """Return the object as JSON; None for no object. Raise ConversionFailed as `value` does."""
        if obj is None:
            return None
        if self._resource.is_storage_version and self._is_stored_kind(obj) and not self._is_converted(obj):
            return self._registry.open_store(self._resource).codec.encode(obj)
        return msgspec.json.encode(await self.value(obj))

    async def replace(self, obj: Any, value: dict[str, Any]) -> list[str]:
        """Change the object in place to a value in the version of the resource, with defaults applied. Return the
        unknown fields of the value. Raise DecodeError if the value is no such object, and ConversionFailed as `value`
        does."""
        if not self._is_stored_kind(obj):
            decoded, unknown_fields = json.decode_value(value, type(obj))
            _overwrite(obj, decoded)
            return unknown_fields
        resource = self._resource_of(obj)
        codec = self._registry.codec_of(resource)
        content, unknown_fields = codec.from_value(await self._convert(value, resource))
        stored = self._converter.to_storage_version(resource, content)
        self._registry.default(resource, stored)
        _overwrite(obj, stored)
        return unknown_fields

    async def _convert(self, value: dict[str, Any], resource: Resource) -> dict[str, Any]:
        """Return the value of a custom resource in the version of a resource; any other value as it is."""
        version = self._registry.behavior(resource).stored_version
        if version is None or value.get("apiVersion") == resource.api_version:
            return value
        (converted,) = await version.conversion.convert([value], resource.api_version)
        return converted

    def _is_converted(self, obj: Any) -> bool:
        """Return whether the object is a custom resource in another version than that of the resource."""
        return isinstance(obj, Unstructured) and obj.apiVersion != self._resource.api_version

    def _resource_of(self, obj: Any) -> Resource:
        """Return the resource in whose version a custom object is; for any other object, return `resource`."""
        if not isinstance(obj, Unstructured):
            return self._resource
        group, _, version = obj.apiVersion.rpartition("/")
        return self._registry.scheme.find_by_kind(group, version, obj.kind) or self._resource

    def _is_stored_kind(self, obj: Any) -> bool:
        if isinstance(obj, Unstructured):
            return True
        if self._resource.storage is None:
            return False
        return type(obj) is self._registry.open_store(self._resource).codec.type


def _overwrite(obj: Any, source: Any) -> None:
    """Give an object all fields of another one of the same type."""
    fields = Unstructured.__slots__ if isinstance(obj, Unstructured) else type(obj).__struct_fields__
    for field in fields:
        setattr(obj, field, getattr(source, field))
