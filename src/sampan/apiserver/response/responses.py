"""The results of executing a request in the version of its path, before they are rendered in the negotiated form."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sampan.api import conversion
from sampan.api.codec import json as json_codec
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.apiserver.request.call import Call
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.storage import backend
from sampan.storage.cacher import CacheItem, ListResult, Watcher
from sampan.storage.cacher import errors as cache

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectResponse:
    """One object: its JSON bytes in the requested version."""

    resource: Resource
    raw: bytes
    code: int = 200
    obj: Any = None
    """The decoded object, if it is available; read-only."""
    item: CacheItem | None = None
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
    obj: Any = None
    """The stored object that the request has changed, if it is known; read-only."""


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

    serve: Callable[[HttpRequest], Awaitable[StreamResponse | None]]
    """Writes the response; may raise ApiError until the first byte is written."""


ApiResponse = ObjectResponse | ListResponse | WatchResponse | ValueResponse | RawResponse | StreamedResponse


def path_not_found() -> RawResponse:
    """Return the response for an unknown path outside of the served API groups."""
    return RawResponse(b"404 page not found\n", code=404, headers={"X-Content-Type-Options": "nosniff"})


def created_status(obj: Any = None) -> ValueResponse:
    """Return the response of a subresource that creates no object: binding, eviction. `obj` is the object that the
    request has changed."""
    value = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return ValueResponse(value, 201, obj=obj)


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


class VersionConverter:
    """Converts objects between the storage version and the version of the request path."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def to_requested_bytes(self, resource: Resource, raw: bytes) -> bytes:
        """Return stored bytes converted to the version of the path."""
        if resource.is_storage_version:
            return raw
        codec = self._registry.codec_of(resource)
        return codec.encode(codec.from_value(self.to_requested_value(resource, raw))[0])

    def to_requested_value(self, resource: Resource, raw: bytes) -> dict[str, Any]:
        """Return the JSON value of stored bytes in the version of the path. The caller may change it."""
        value: dict[str, Any] = json_codec.read_any(raw)
        return value if resource.is_storage_version else conversion.convert(value, resource.gvk)

    def to_storage_version(self, resource: Resource, obj: Any) -> Any:
        return obj if resource.storage is None else self._convert(resource, obj, resource.storage)

    def to_requested_version(self, resource: Resource, obj: Any) -> Any:
        return self._convert(resource, obj, resource.gvk)

    def _convert(self, resource: Resource, obj: Any, to: GroupVersionKind) -> Any:
        if resource.is_storage_version:
            return obj
        target = self._registry.codec(to, resource)
        return target.from_value(conversion.convert(json_codec.to_value(obj), to))[0]


def api_error_of(error: Exception, call: Call) -> errors.ApiError:
    """Return the API error for an exception that a request has raised. One that is not expected is logged."""
    api_error = translate_storage_error(error, call)
    if api_error is not None:
        return api_error
    log.exception("the request %s %s failed", call.method, call.path)
    return errors.internal_error("the request failed unexpectedly")


def translate_storage_error(error: Exception, call: Call) -> errors.ApiError | None:
    """Return the API error for an error of the storage or cache, None for any other exception."""
    match error:
        case cache.VersionExpired():
            expired = errors.expired(str(error))
            if error.continue_token:
                expired.status["metadata"] = {"continue": error.continue_token}
            return expired
        case cache.TooLargeVersion():
            retry_after_s = 0 if call.verb == "deletecollection" else error.retry_after_s
            return errors.resource_version_too_large(error.requested, error.current, retry_after_s=retry_after_s)
        case cache.InvalidVersion():
            return (
                errors.bad_request(str(error))
                if call.verb in ("list", "deletecollection")
                else errors.unexpected_error(str(error))
            )
        case cache.InvalidContinue() | cache.UnsupportedField():
            return errors.bad_request(str(error))
        case cache.NotReady() | cache.WatchClosed() | backend.BackendClosed():
            return errors.service_unavailable(str(error))
        case backend.ConversionFailed():
            return errors.internal_error(str(error))
        case backend.Unavailable():
            return errors.timeout(str(error)) if error.may_have_happened else errors.service_unavailable(str(error))
        case cache.CorruptValue():
            return errors.internal_error(str(error))
        case backend.Compacted():
            return errors.expired("The resourceVersion for the provided list is too old.")
    return None
