"""The API client that every component uses: typed, over HTTP or a loopback, the same code on both.

`transport` is the contract that carries requests; `client` retries and signs them; `resource` has what can be done with
a resource's objects. `http` and `kubeconfig` load only where a component lives outside the server's process; the
loopback transport is the API server's (`sampan.apiserver.loopback`).
"""

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
