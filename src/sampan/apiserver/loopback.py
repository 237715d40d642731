"""The loopback transport: a client in the server's process enters the pipeline without HTTP.

The user is fixed; authorization, admission and everything after are the same as for a request from the network. Writes
are passed as encoded bytes. Reads return the decoded objects of the watch cache, which are shared by all clients and
therefore read-only; watch events come from the cache directly.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from sampan.api.codec import json as json_codec
from sampan.api.resources.resource import Resource
from sampan.api.types.meta_v1 import ObjectMeta, PartialObjectMetadata
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.request.call import Call, Query, UserInfo
from sampan.apiserver.response import json_bytes
from sampan.apiserver.response.responses import (
    ApiResponse,
    ListResponse,
    ObjectResponse,
    RawResponse,
    StreamedResponse,
    ValueResponse,
    WatchResponse,
    translate_storage_error,
)
from sampan.host.activity import Activity
from sampan.host.time_slice import TimeSlice
from sampan.machinery import errors
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.responses import BytesResponse
from sampan.machinery.client.transport import BOOKMARK, INITIAL_EVENTS_END, Events, ListPage, Request, Response
from sampan.machinery.object_key import NamespacedName
from sampan.storage.cacher import CacheError, CacheItem, Watcher
from sampan.storage.cacher import CacheEvent as CacherEvent

log = logging.getLogger(__name__)

_END_MARK = INITIAL_EVENTS_END.encode()


class LoopbackTransport:
    def __init__(self, *, pipeline: Pipeline, user: UserInfo, activity: Activity | None = None) -> None:
        self._pipeline, self._user = pipeline, user
        self.activity = activity or Activity()
        """The requests in progress, which a virtual clock waits for."""

    def as_user(self, user: UserInfo) -> LoopbackTransport:
        """Return a transport to the same server for another user."""
        return LoopbackTransport(pipeline=self._pipeline, user=user, activity=self.activity)

    async def send(self, request: Request) -> Response:
        with self.activity:
            # A request may have to wait for nothing; a component that sends many would hold the loop.
            await TimeSlice().pause_if_used_up()
            call = self._call(request)
            return _response(self._pipeline.endpoints, call, await self._serve(call))

    @asynccontextmanager
    async def watch(self, request: Request, codec: ObjectCodec) -> AsyncIterator[Events]:
        call = self._call(request)
        api_response = await self._serve(call)
        if not isinstance(api_response, WatchResponse):
            raise errors.bad_request("the request is not a watch")
        try:
            watcher = await api_response.watcher.__aenter__()
        except Exception as error:
            raise _api_error(error, call) from error
        try:
            converter = _RequestedVersion(self._pipeline.endpoints, api_response.resource)
            yield _LoopbackEvents(watcher, call, converter, codec)
        finally:
            await watcher.__aexit__(None, None, None)
            if call.audit is not None:
                call.audit.complete()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _call(self, request: Request) -> Call:
        return Call(
            method=request.method,
            path=request.path,
            query=Query.from_pairs(request.query),
            headers=request.headers,
            body=request.body,
            user=self._user,
        )

    async def _serve(self, call: Call) -> ApiResponse:
        try:
            return await self._pipeline.serve_as(call)
        except errors.ApiError:
            raise
        except Exception as error:
            raise _api_error(error, call) from error


def _api_error(error: Exception, call: Call) -> errors.ApiError:
    """Return the API error for an exception of the server."""
    if (api_error := translate_storage_error(error, call)) is not None:
        return api_error
    if isinstance(error, CacheError):  # for example a watcher that was too slow; the client may retry
        return errors.service_unavailable(str(error))
    log.error("unexpected error in %s %s", call.method, call.path, exc_info=error)
    return errors.internal_error("the request failed unexpectedly")


def _response(endpoints: ApiEndpoints, call: Call, api_response: ApiResponse) -> Response:
    if isinstance(api_response, ObjectResponse):
        return _ObjectResponse(_RequestedVersion(endpoints, api_response.resource), api_response, call.warnings)
    if isinstance(api_response, ListResponse):
        return _ListResponse(_RequestedVersion(endpoints, api_response.resource), api_response, call.warnings)
    if isinstance(api_response, WatchResponse):
        raise errors.bad_request("the request is a watch")
    if isinstance(api_response, StreamedResponse):
        raise errors.bad_request("the request needs an HTTP connection of its own")
    body = api_response.body if isinstance(api_response, RawResponse) else json_codec.encode(api_response.value)
    if api_response.code >= 400:
        raise _failure(api_response, body)
    return _ValueResponse(api_response.code, api_response.headers, body, call.warnings)


def _failure(api_response: ValueResponse | RawResponse, body: bytes) -> errors.ApiError:
    if isinstance(api_response, ValueResponse):
        return errors.from_status(api_response.value)
    return errors.generic(api_response.code, body.decode("utf-8", "replace"), is_unexpected=True)


class _RequestedVersion:
    """Converts items of the watch cache to the version of a resource."""

    __slots__ = ("_endpoints", "_resource")

    def __init__(self, endpoints: ApiEndpoints, resource: Resource) -> None:
        self._endpoints, self._resource = endpoints, resource

    def object(self, item: CacheItem, codec: ObjectCodec) -> Any:
        if codec.is_metadata:
            return _metadata(item) if codec.type is PartialObjectMetadata else codec.decode(item.raw)
        cacher = self._endpoints.registry.open_store(self._resource).cacher
        return self.version(cacher.object(item))

    def version(self, obj: Any) -> Any:
        """Return a stored object in the requested version."""
        return self._endpoints.versions.to_requested_version(self._resource, obj)

    def list(self, api_response: ListResponse) -> bytes:
        return b"".join(json_bytes.list_chunks(api_response.resource, api_response.result, self._endpoints.versions))


class _ObjectResponse:
    __slots__ = ("_api_response", "_converter", "warnings")
    headers: Mapping[str, str] = {}

    def __init__(self, converter: _RequestedVersion, api_response: ObjectResponse, warnings: Sequence[str]) -> None:
        self._converter, self._api_response, self.warnings = converter, api_response, warnings

    @property
    def status(self) -> int:
        return self._api_response.code

    def body(self) -> bytes:
        return self._api_response.raw

    def object(self, codec: ObjectCodec) -> Any:
        api_response = self._api_response
        if api_response.item is not None:
            return self._converter.object(api_response.item, codec)
        if api_response.obj is not None and type(api_response.obj) is codec.type:
            return api_response.obj
        if codec.type is PartialObjectMetadata:
            return _metadata_of(api_response.raw)
        return codec.decode(api_response.raw)

    def page(self, codec: ObjectCodec) -> ListPage:
        raise ValueError("the response is not a list")


class _ListResponse:
    __slots__ = ("_api_response", "_converter", "warnings")
    headers: Mapping[str, str] = {}
    status = 200

    def __init__(self, converter: _RequestedVersion, api_response: ListResponse, warnings: Sequence[str]) -> None:
        self._converter, self._api_response, self.warnings = converter, api_response, warnings

    def body(self) -> bytes:
        return self._converter.list(self._api_response)

    def object(self, codec: ObjectCodec) -> Any:
        raise ValueError("the response is a list, not an object")

    def page(self, codec: ObjectCodec) -> ListPage:
        result, converter = self._api_response.result, self._converter.object
        items = [converter(item, codec) for item in result.items]
        return ListPage(items, str(result.revision), result.continue_token, result.remaining)


class _ValueResponse(BytesResponse):
    __slots__ = ("_warnings",)

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, warnings: Sequence[str]) -> None:
        super().__init__(status, headers, body)
        self._warnings = warnings

    @property
    def warnings(self) -> Sequence[str]:
        return self._warnings


class _LoopbackEvent:
    """A watch event whose object is decoded on first access and then shared with all other clients."""

    __slots__ = ("_codec", "_converter", "_item", "type")

    def __init__(self, type: str, item: CacheItem, converter: _RequestedVersion, codec: ObjectCodec) -> None:
        self.type, self._item, self._converter, self._codec = type, item, converter, codec

    @property
    def key(self) -> NamespacedName:
        return NamespacedName(self._item.namespace, self._item.name)

    @property
    def resource_version(self) -> str:
        return str(self._item.revision)

    @property
    def ends_initial_events(self) -> bool:
        return self.type == BOOKMARK and _END_MARK in self._item.body

    @property
    def object(self) -> Any:
        return self._converter.object(self._item, self._codec)


class _LoopbackEvents:
    def __init__(self, watcher: Watcher, call: Call, converter: _RequestedVersion, codec: ObjectCodec) -> None:
        self._watcher, self._call, self._converter, self._codec = watcher, call, converter, codec

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Sequence[_LoopbackEvent]:
        try:
            events: list[CacherEvent] = await self._watcher.__anext__()
        except StopAsyncIteration:
            raise
        except Exception as error:
            raise _api_error(error, self._call) from error
        converter, codec = self._converter, self._codec
        return [_LoopbackEvent(event.type, event.item, converter, codec) for event in events]


class _OnlyMetadata(msgspec.Struct):
    metadata: ObjectMeta


_metadata_decoder = msgspec.json.Decoder(_OnlyMetadata)


def _metadata(item: CacheItem) -> PartialObjectMetadata:
    """Return the metadata of a cached item: that of the decoded object if there is one, otherwise only the metadata is
    decoded."""
    if (obj := item.decoded) is not None:
        return PartialObjectMetadata(metadata=obj.metadata)
    return _metadata_of(item.raw)


def _metadata_of(raw: bytes) -> PartialObjectMetadata:
    return PartialObjectMetadata(metadata=_metadata_decoder.decode(raw).metadata)
