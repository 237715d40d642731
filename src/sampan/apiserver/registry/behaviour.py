"""The behavior of a resource, declared once per kind beside its identity (`sampan.api.resources`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sampan.api.resource import Resource
from sampan.apiserver.registry.strategy import StatusStrategy, Strategy
from sampan.machinery.apply import Everything, Except, Filter
from sampan.machinery.apply.sets import Path

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.registry.custom.stored_versions import StoredVersion
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse

Handler = Callable[["ApiEndpoints", "Call"], Awaitable["ApiResponse"]]
"""Serves a subresource that is not a view of the object: binding, eviction, token, scale, log, exec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceBehaviour:
    strategy: Strategy = field(default_factory=Strategy)
    views: Mapping[str, Strategy] = field(default_factory=dict)
    """Strategies of subresources that show the object itself: status, ephemeralcontainers, resize, finalize."""
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    """Handlers of other subresources; the key "" stands for a resource that is not stored (reviews)."""
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

    def reset_fields(self, resource: Resource, subresource: str) -> Filter:
        """Return the filter of the fields that a manager may own through a path: all but those that the path resets.

        Unless the strategy of the path says otherwise, the main path resets the status, and the path of the status the
        spec, and the metadata if it keeps that.
        """
        view = self.view(subresource)
        if view is not None and view.reset_fields is not None:
            return view.reset_fields
        if subresource == "status":
            return _STATUS_ONLY if self.status_keeps_metadata else _ALL_BUT_SPEC
        if not subresource and resource.subresource("status") is not None:
            return _ALL_BUT_STATUS
        return _EVERYTHING


_ALL_BUT_STATUS, _ALL_BUT_SPEC, _STATUS_ONLY = Except("status"), Except("spec"), Except("metadata", "spec")
_EVERYTHING = Everything()
