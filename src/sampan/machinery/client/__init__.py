"""The API client that every component uses: typed, with the same code over HTTP and over the in-process loopback.

`transport` is the contract of the transports, which carry requests. `client` adds retries and headers, and has the
operations on the objects of a resource. `access` and `kubeconfig` describe how to reach a server, and `http` connects
to it; the loopback transport belongs to the API server (`sampan.apiserver.loopback`). The Kubernetes counterparts are
client-go's `rest`, `dynamic`, `discovery` and `tools/clientcmd`. Names are imported on first use, so that a command
that only needs a kubeconfig does not load the API types.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sampan.machinery.client.client import Client, ResourceClient, RetryConfig
    from sampan.machinery.client.codecs import builtin, path_of, resource_of
    from sampan.machinery.client.options import (
        DEFAULT_DELETE_PARAMETERS,
        DEFAULT_WRITE_PARAMETERS,
        EVERYTHING,
        DeleteParameters,
        PatchType,
        Selection,
        WriteParameters,
    )
    from sampan.machinery.client.transport import (
        ADDED,
        BOOKMARK,
        DELETED,
        MODIFIED,
        ConnectionFailed,
        Events,
        ListPage,
        Request,
        Response,
        Transport,
        WatchEvent,
    )

_NAMES = {
    "client": ("Client", "ResourceClient", "RetryConfig"),
    "codecs": ("builtin", "path_of", "resource_of"),
    "options": (
        *("DEFAULT_DELETE_PARAMETERS", "DEFAULT_WRITE_PARAMETERS", "EVERYTHING"),
        *("DeleteParameters", "PatchType", "Selection", "WriteParameters"),
    ),
    "transport": (
        *("ADDED", "BOOKMARK", "DELETED", "MODIFIED", "ConnectionFailed", "Events", "ListPage", "Request", "Response"),
        *("Transport", "WatchEvent"),
    ),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


__all__ = [
    "ADDED",
    "BOOKMARK",
    "DEFAULT_DELETE_PARAMETERS",
    "DEFAULT_WRITE_PARAMETERS",
    "DELETED",
    "EVERYTHING",
    "MODIFIED",
    "Client",
    "ConnectionFailed",
    "DeleteParameters",
    "Events",
    "ListPage",
    "PatchType",
    "Request",
    "ResourceClient",
    "Response",
    "RetryConfig",
    "Selection",
    "Transport",
    "WatchEvent",
    "WriteParameters",
    "builtin",
    "path_of",
    "resource_of",
]
