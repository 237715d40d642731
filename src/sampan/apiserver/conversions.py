"""Conversion of objects between the storage version and the version of the request path."""

from typing import Any

from sampan.api import conversion
from sampan.api.codec import json as json_codec
from sampan.api.resource import GroupVersionKind, Resource
from sampan.apiserver.registry.registry import Registry


class Versions:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def is_stored(self, resource: Resource) -> bool:
        """Whether the version of the path is the storage version, so that bytes can be passed through unchanged."""
        stored = resource.storage
        return stored is None or (stored.version == resource.version and stored.group == resource.group)

    def show(self, resource: Resource, raw: bytes) -> bytes:
        """Return stored bytes converted to the version of the path."""
        if self.is_stored(resource):
            return raw
        codec = self._registry.codec_of(resource)
        return codec.encode(codec.from_value(self.shown_value(resource, raw))[0])

    def shown_value(self, resource: Resource, raw: bytes) -> dict[str, Any]:
        """Return the JSON value of stored bytes in the version of the path. The caller may change it."""
        value: dict[str, Any] = json_codec.read_any(raw)
        return value if self.is_stored(resource) else conversion.convert(value, resource.gvk)

    def to_stored(self, resource: Resource, obj: Any) -> Any:
        return obj if resource.storage is None else self._convert(resource, obj, resource.storage)

    def to_shown(self, resource: Resource, obj: Any) -> Any:
        return self._convert(resource, obj, resource.gvk)

    def _convert(self, resource: Resource, obj: Any, to: GroupVersionKind) -> Any:
        if self.is_stored(resource):
            return obj
        target = self._registry.codec(to, resource)
        return target.from_value(conversion.convert(json_codec.to_value(obj), to))[0]
