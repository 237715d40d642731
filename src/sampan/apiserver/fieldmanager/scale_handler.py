"""Managed fields for writes to the scale subresource."""

from __future__ import annotations

from typing import Any

from sampan.api import schemas
from sampan.api.codec import json as json_codec
from sampan.api.resource import GroupVersionKind, Resource
from sampan.api.types.autoscaling_v1 import Scale
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.apiserver.fieldmanager.ownership import Ownership
from sampan.machinery.apply import Everything, MissingVersion
from sampan.machinery.apply.atoms import Atom, of_kind
from sampan.machinery.apply.field_manager import FieldManager
from sampan.machinery.apply.field_sets import KnownSets
from sampan.machinery.apply.managed import SCALE_VERSION, of_parent, of_scale

KIND = GroupVersionKind(group="autoscaling", version="v1", kind="Scale")

Entries = list[ManagedFieldsEntry]


class _OneForm:
    """The single version of Scale."""

    def __init__(self) -> None:
        self._atom = of_kind(schemas.of(Scale), is_custom=False)

    def atom(self, api_version: str) -> Atom:
        if api_version != SCALE_VERSION:
            raise MissingVersion(api_version)
        return self._atom

    def convert(self, value: Any, api_version: str) -> Any:
        self.atom(api_version)
        return value


class ScaleOwnership:
    """The managed fields of the scale subresource, for all kinds."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        forms = _OneForm()
        empty = json_codec.to_value(Scale(kind=KIND.kind, apiVersion=SCALE_VERSION))
        self._managers = FieldManager(
            kind=KIND, subresource="scale", forms=forms, ignored=Everything(), known=KnownSets(forms), empty=empty
        )

    def changed(self, resource: Resource, kept: Entries, old: Scale, new: Scale, *, manager: str, now: str) -> Entries:
        """Return the managed fields of the object after an update of its scale; `kept` are those before."""
        before, after = json_codec.to_value(old), json_codec.to_value(new)
        scale_entries = self.scale_entries(resource, kept)
        entries = self._managers.update(before, after, scale_entries, [], is_reset=False, manager=manager, now=now)
        return self._merged(resource, kept, entries)

    def applied(
        self, resource: Resource, kept: Entries, old: Scale, applied: Any, *, manager: str, force: bool, now: str
    ) -> tuple[Any, Entries]:
        """Return the value of the scale after an apply, and the managed fields of the object."""
        live = json_codec.to_value(old)
        scale_entries = self.scale_entries(resource, kept)
        value, entries = self._managers.apply(live, applied, scale_entries, manager=manager, force=force, now=now)
        return live if value is None else value, self._merged(resource, kept, entries)

    def scale_entries(self, resource: Resource, kept: Entries) -> Entries:
        """Return the managed fields of a scale; `kept` are those of its object."""
        parent = self._ownership.of(resource, "").decoded(kept)
        return self._managers.encoded(of_scale(parent, self._ownership.replicas_paths(resource)))

    def _merged(self, resource: Resource, kept: Entries, entries: Entries) -> Entries:
        main = self._ownership.of(resource, "")
        scale = self._managers.decoded(entries)
        paths = self._ownership.replicas_paths(resource)
        return main.encoded(*of_parent(main.decoded(kept), scale, resource.api_version, paths))
