"""The behavior of a resource, declared once per kind beside its identity (`sampan.api.resources.resource_table`), and
the generic behavior of kinds without rules of their own: the status is a subresource, and a few properties are
options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.resources.resource import Resource
from sampan.apiserver.registry.strategy import Context, StatusStrategy, Strategy
from sampan.machinery.apply import AllFieldsFilter, ExcludedFieldsFilter, FieldFilter
from sampan.machinery.apply.sets import Path

if TYPE_CHECKING:
    from sampan.apiserver.customresources.objects.stored_versions import StoredVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceBehavior:
    strategy: Strategy = field(default_factory=Strategy)
    views: Mapping[str, Strategy] = field(default_factory=dict)
    """Strategies of subresources that show the object itself: status, ephemeralcontainers, resize, finalize."""
    deprecation: str = ""
    """A warning in every response of the resource."""
    replicas_paths: dict[str, Path] = field(default_factory=dict)
    """The path of the replicas by apiVersion, for a scalable custom resource."""
    stored_version: StoredVersion | None = None
    """How the stored objects of a custom resource are converted; None if the generated types have the conversion."""

    def view(self, subresource: str) -> Strategy | None:
        """Return the strategy for a write to the object or to a view of it, None for other subresources.

        Every kind has a status view unless it declares another.
        """
        if not subresource:
            return self.strategy
        if subresource == "status" and "status" not in self.views:
            return StatusStrategy(self.strategy)
        return self.views.get(subresource)

    @property
    def status_keeps_metadata(self) -> bool:
        """Whether an update of the status leaves the metadata unchanged."""
        view = self.view("status")
        return isinstance(view, StatusStrategy) and view.keeps_metadata

    def reset_fields(self, resource: Resource, subresource: str) -> FieldFilter:
        """Return the filter of the fields that a manager may own through a path: all but those that the path resets.

        Unless the strategy of the path declares its own filter, the main path resets the status. The status path resets
        the spec, and also the metadata if status updates leave the metadata unchanged.
        """
        view = self.view(subresource)
        if view is not None and view.reset_fields is not None:
            return view.reset_fields
        if subresource == "status":
            return _STATUS_ONLY if self.status_keeps_metadata else _ALL_BUT_SPEC
        if not subresource and resource.subresource("status") is not None:
            return _ALL_BUT_STATUS
        return _EVERYTHING


_ALL_BUT_STATUS, _ALL_BUT_SPEC, _STATUS_ONLY = (
    ExcludedFieldsFilter("status"),
    ExcludedFieldsFilter("spec"),
    ExcludedFieldsFilter("metadata", "spec"),
)
_EVERYTHING = AllFieldsFilter()


def _forget_empty_lists(obj: Any) -> None:
    """Turn empty lists without omitempty into null, as kube-apiserver does, whose protobuf cannot tell them apart."""
    kind: Any = type(obj)
    for name in _list_fields_without_omitempty(kind):
        if getattr(obj, name) == []:
            setattr(obj, name, None)


@cache
def _list_fields_without_omitempty(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.default_factory is type(None))


class GenericStrategy(Strategy):
    def __init__(
        self,
        *,
        has_status: bool,
        allow_create_on_update: bool = False,
        allow_unconditional_update: bool = True,
        return_deleted_object: bool = False,
        counts_generation: bool = False,
        reset_fields: FieldFilter | None = None,
    ) -> None:
        self._has_status = has_status
        self.allow_create_on_update = allow_create_on_update
        self.allow_unconditional_update = allow_unconditional_update
        self.return_deleted_object = return_deleted_object
        self.counts_generation = counts_generation
        self.reset_fields = reset_fields

    def prepare_for_create(self, ctx: Context, obj: Any) -> None:
        _forget_empty_lists(obj)
        if self._has_status:
            obj.status = type(obj)().status

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        _forget_empty_lists(obj)
        if self._has_status:
            obj.status = old.status


class GenericStatusStrategy(StatusStrategy):
    def __init__(
        self, main: GenericStrategy, *, keeps_metadata: bool = False, reset_fields: FieldFilter | None = None
    ) -> None:
        super().__init__(main)
        self.keeps_metadata, self.reset_fields = keeps_metadata, reset_fields


def status_behavior(
    strategy: GenericStrategy, *, keeps_metadata: bool = False, reset_fields: FieldFilter | None = None
) -> ResourceBehavior:
    """Return the behavior of a kind with a status subresource, to which the options apply."""
    view = GenericStatusStrategy(strategy, keeps_metadata=keeps_metadata, reset_fields=reset_fields)
    return ResourceBehavior(strategy=strategy, views={"status": view})


def make_generic_behavior(resource: Resource) -> ResourceBehavior:
    """Return the behavior of a built-in resource without a module of its own."""
    has_status = resource.subresource("status") is not None
    strategy = GenericStrategy(has_status=has_status)
    return status_behavior(strategy) if has_status else ResourceBehavior(strategy=strategy)
