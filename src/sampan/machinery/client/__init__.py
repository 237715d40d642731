"""The API client that every component uses: typed, over HTTP or a loopback, the same code on both.

`transport` is the contract that carries requests; `client` retries and signs them; `resource` has what can be done with
a resource's objects. `access` and `kubeconfig` tell how a server is reached, `http` goes there; the loopback transport
is the API server's (`sampan.apiserver.loopback`).

Names are loaded when they are first used, so that a command that wants a kubeconfig alone does not wait for the types.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sampan.machinery.client.client import Client, RetryConfig
    from sampan.machinery.client.kinds import builtin, path_of, resource_of
    from sampan.machinery.client.options import AS_EVER, EVERYTHING, PLAIN, Delete, PatchType, Selection, Write
    from sampan.machinery.client.resource import ResourceClient
    from sampan.machinery.client.transport import (
        ADDED,
        BOOKMARK,
        DELETED,
        MODIFIED,
        ConnectionFailed,
        Events,
        Page,
        Request,
        Response,
        Transport,
        WatchEvent,
    )

_NAMES = {
    "client": ("Client", "RetryConfig"),
    "kinds": ("builtin", "path_of", "resource_of"),
    "options": ("AS_EVER", "EVERYTHING", "PLAIN", "Delete", "PatchType", "Selection", "Write"),
    "resource": ("ResourceClient",),
    "transport": (
        *("ADDED", "BOOKMARK", "DELETED", "MODIFIED", "ConnectionFailed", "Events", "Page", "Request", "Response"),
        *("Transport", "WatchEvent"),
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return found


__all__ = [
    "ADDED",
    "AS_EVER",
    "BOOKMARK",
    "DELETED",
    "EVERYTHING",
    "MODIFIED",
    "PLAIN",
    "Client",
    "ConnectionFailed",
    "Delete",
    "Events",
    "Page",
    "PatchType",
    "Request",
    "ResourceClient",
    "Response",
    "RetryConfig",
    "Selection",
    "Transport",
    "WatchEvent",
    "Write",
    "builtin",
    "path_of",
    "resource_of",
]
