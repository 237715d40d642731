"""The handlers of requests that read or write something else than the object of their path: reviews, bindings,
evictions, tokens, scales, logs, connections.

The handlers of a built-in kind are declared as `HANDLERS` in its module, beside its behavior. The handlers of resources
that are registered at run time are set here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sampan.api.resources.resource import Resource
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse

Handler = Callable[["ApiEndpoints", "Call"], Awaitable["ApiResponse"]]
Handlers = Mapping[str, Handler]
"""Handlers by subresource. The key "" stands for a resource that is not stored (reviews)."""
FindHandlers = Callable[[str, str], Handlers]
"""Returns the handlers of a built-in kind by its group and plural."""

_NO_HANDLERS: Handlers = {}


class ResourceHandlers:
    def __init__(self, *, find_builtin: FindHandlers) -> None:
        self._find_builtin = find_builtin
        self._added: dict[tuple[str, str, str], Handlers] = {}

    def find(self, resource: Resource, subresource: str) -> Handler | None:
        """Return the handler of a subresource, or None if its requests concern the object itself."""
        handlers = self._added.get(_key(resource))
        if handlers is None:
            handlers = _NO_HANDLERS if resource.is_custom else self._find_builtin(resource.group, resource.plural)
        return handlers.get(subresource)

    def add(self, resource: Resource, handlers: Handlers) -> None:
        """Set the handlers of a resource that is registered at run time."""
        self._added[_key(resource)] = handlers

    def remove(self, resource: Resource) -> None:
        self._added.pop(_key(resource), None)


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural
