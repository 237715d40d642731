"""What carrying out a call gives, before it is put into the form that the client asked for."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sampan.api.resource import Resource
from sampan.storage.cacher import Item, ListResult, Watcher

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True)
class ObjectAnswer:
    """One object: its bytes as JSON, in the version that was asked for."""

    resource: Resource
    raw: bytes
    code: int = 200
    obj: Any = None
    """The decoded object where there is one already; read-only."""
    item: Item | None = None
    """What the cache holds of it, where it came from there."""


@dataclass(frozen=True, slots=True)
class ListAnswer:
    resource: Resource
    result: ListResult


@dataclass(frozen=True, slots=True)
class WatchAnswer:
    resource: Resource
    watcher: Watcher
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ValueAnswer:
    """A JSON value that is no stored object: a Status, discovery, a review."""

    value: Any
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BytesAnswer:
    """A finished body: health checks, metrics, logs."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """What is written to the client's own connection by somebody else: a proxy, a log."""

    serve: "Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]"
    """Raises ApiError while nothing is written."""


Answer = ObjectAnswer | ListAnswer | WatchAnswer | ValueAnswer | BytesAnswer | StreamAnswer


def no_such_path() -> BytesAnswer:
    """For paths that lead nowhere, outside of the groups that are served."""
    return BytesAnswer(b"404 page not found\n", code=404, headers={"X-Content-Type-Options": "nosniff"})


def created() -> ValueAnswer:
    """What a subresource answers that makes no object: binding, eviction."""
    return ValueAnswer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def success(resource: Resource, name: str, uid: str) -> ValueAnswer:
    """What a deletion answers for kinds that do not return the object."""
    details: dict[str, str] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if uid:
        details["uid"] = uid
    return ValueAnswer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
