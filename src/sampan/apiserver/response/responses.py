"""The results of executing a request, before they are rendered in the negotiated form."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sampan.api.resource import Resource
from sampan.apiserver.request.call import Call
from sampan.machinery import errors
from sampan.storage import backend
from sampan.storage.cacher import Item, ListResult, Watcher
from sampan.storage.cacher import errors as cache

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True)
class ObjectResponse:
    """One object: its JSON bytes in the requested version."""

    resource: Resource
    raw: bytes
    code: int = 200
    obj: Any = None
    """The decoded object, if it is available; read-only."""
    item: Item | None = None
    """The item of the watch cache that the object comes from, if any."""


@dataclass(frozen=True, slots=True)
class ListResponse:
    resource: Resource
    result: ListResult


@dataclass(frozen=True, slots=True)
class WatchResponse:
    resource: Resource
    watcher: Watcher
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ValueResponse:
    """A JSON value that is not a stored object: a Status, discovery, a review."""

    value: Any
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A complete body: health checks, metrics, logs."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """A response that a backend writes to the client's connection: a proxy, a log stream."""

    serve: "Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]"
    """Writes the response; may raise ApiError until the first byte is written."""


ApiResponse = ObjectResponse | ListResponse | WatchResponse | ValueResponse | RawResponse | StreamedResponse


def path_not_found() -> RawResponse:
    """Return the response for an unknown path outside of the served API groups."""
    return RawResponse(b"404 page not found\n", code=404, headers={"X-Content-Type-Options": "nosniff"})


def created_status() -> ValueResponse:
    """Return the response of a subresource that creates no object: binding, eviction."""
    return ValueResponse({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def success_status(resource: Resource, name: str, uid: str) -> ValueResponse:
    """Return the response to a delete of a kind that does not return the object."""
    details: dict[str, str] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if uid:
        details["uid"] = uid
    return ValueResponse(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    )


def translate_storage_error(error: Exception, call: Call) -> errors.ApiError | None:
    """Return the API error for an error of the storage or cache, None for any other exception."""
    match error:
        case cache.VersionExpired():
            expired = errors.expired(str(error))
            if error.continue_token:
                expired.status["metadata"] = {"continue": error.continue_token}
            return expired
        case cache.TooLargeVersion():
            return errors.resource_version_too_large(error.requested, error.current, retry_after_s=error.retry_after_s)
        case cache.InvalidVersion():
            return errors.bad_request(str(error)) if call.verb == "list" else errors.unexpected(str(error))
        case cache.InvalidContinue() | cache.UnsupportedField():
            return errors.bad_request(str(error))
        case cache.NotReady() | cache.WatchClosed() | backend.Closed():
            return errors.service_unavailable(str(error))
        case backend.Unavailable():
            return errors.timeout(str(error)) if error.may_have_happened else errors.service_unavailable(str(error))
        case cache.CorruptValue():
            return errors.internal_error(str(error))
        case backend.Compacted():
            return errors.expired("The resourceVersion for the provided list is too old.")
    return None
