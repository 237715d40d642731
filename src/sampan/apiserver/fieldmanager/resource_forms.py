"""The served versions of a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sampan.api import conversion
from sampan.api.codec import json as json_codec
from sampan.api.resource import GroupVersionKind, Resource
from sampan.machinery.apply import Misfit, MissingVersion
from sampan.machinery.apply.atoms import Atom, of_kind

if TYPE_CHECKING:
    from sampan.apiserver.registry.codec import ResourceCodec
    from sampan.apiserver.registry.registry import Registry


class ResourceForms:
    """The versions of one kind in one group. Entries of a manager for another group's version are dropped."""

    def __init__(self, registry: Registry, resource: Resource) -> None:
        self._registry, self._group, self._kind = registry, resource.group, resource.kind
        self._atoms: dict[str, tuple[ResourceCodec, Atom]] = {}

    def atom(self, api_version: str) -> Atom:
        resource = self._resource(api_version)
        codec = self._registry.codec_of(resource)
        cached = self._atoms.get(api_version)
        if cached is None or cached[0] is not codec:  # the schema of a custom resource may change
            cached = self._atoms[api_version] = codec, of_kind(codec.schema, is_custom=resource.is_custom)
        return cached[1]

    def convert(self, value: Any, api_version: str) -> Any:
        if value["apiVersion"] == api_version:
            return value
        try:
            return self.shown(value, self._resource(api_version).gvk)
        except conversion.NoConversion as error:
            raise MissingVersion(api_version) from error

    def shown(self, value: Any, kind: GroupVersionKind) -> Any:
        """Convert a value of any group and version to that kind. Raise NoConversion if there is no conversion."""
        return self.completed(conversion.convert(value, kind))

    def completed(self, value: Any) -> Any:
        """Return a converted value with the fields that its type always has."""
        resource = self._resource(value["apiVersion"])
        codec = self._registry.codec_of(resource)
        if codec.type is None:
            return value
        try:
            return json_codec.to_value(codec.from_value(value)[0])
        except json_codec.DecodeError as error:
            raise Misfit(str(error)) from None

    def _resource(self, api_version: str) -> Resource:
        group, _, version = api_version.rpartition("/")
        resource = self._registry.scheme.by_kind(group, version, self._kind) if group == self._group else None
        if resource is None:
            raise MissingVersion(api_version)
        return resource
