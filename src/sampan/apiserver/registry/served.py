"""How a resource behaves, declared once per kind beside its identity (`sampan.api.resources`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sampan.apiserver.registry.strategy import StatusStrategy, Strategy

if TYPE_CHECKING:
    from sampan.apiserver.call import Call
    from sampan.apiserver.endpoints import Endpoints
    from sampan.apiserver.results import Answer

Handler = Callable[["Endpoints", "Call"], Awaitable["Answer"]]
"""A subresource that is no view of the object: binding, eviction, token, scale, log, exec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    strategy: Strategy = field(default_factory=Strategy)
    views: Mapping[str, Strategy] = field(default_factory=dict)
    """Subresources that are the object itself under other rules: status, ephemeralcontainers, resize, finalize."""
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    """Subresources with a code of their own; "" for a resource that is not stored (reviews)."""
    deprecation: str = ""
    """A warning that every answer of the resource carries."""

    def view(self, subresource: str) -> Strategy | None:
        """The rules of a write to the object or to a view of it; a status is one by default."""
        if not subresource:
            return self.strategy
        if subresource == "status" and "status" not in self.views:
            return StatusStrategy(self.strategy)
        return self.views.get(subresource)
