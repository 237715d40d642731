"""The client: sends requests with retries, and creates the clients of resources, which operate on their objects."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sampan.api.codec import json
from sampan.api.resources.resource import Resource
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client.codecs import METADATA, ObjectCodec, codec_of, codec_of_subresource, path_of, resource_of
from sampan.machinery.client.options import (
    DEFAULT_DELETE_PARAMETERS,
    DEFAULT_WRITE_PARAMETERS,
    EVERYTHING,
    DeleteParameters,
    Pairs,
    PatchType,
    Selection,
    WriteParameters,
    non_empty,
)
from sampan.machinery.client.request_metrics import ClientRequestMetrics
from sampan.machinery.client.transport import ConnectionFailed, Events, ListPage, Request, Response, Transport
from sampan.machinery.decisions import note_write

T = TypeVar("T")

PAGE_SIZE = 500
_JSON = "application/json"
_AS = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
_PARTIAL, _PARTIAL_LIST = _AS.format("PartialObjectMetadata"), _AS.format("PartialObjectMetadataList")

log = logging.getLogger(__name__)

OnWarning = Callable[[str], None]
"""Called with each warning from a response's Warning headers."""


class ResourceClient(Generic[T]):
    """The client of one resource. Returned objects may be shared within the process: they are read-only, copy before
    changing."""

    def __init__(self, *, client: Client, resource: Resource, codec: ObjectCodec) -> None:
        self.resource, self.codec = resource, codec
        self._client = client

    # -- reads -------------------------------------------------------------------------------------------------------

    async def get(self, name: str, namespace: str = "", *, resource_version: str = "") -> T:
        query = non_empty(resourceVersion=resource_version)
        response = await self._send("GET", path_of(self.resource, namespace, name), query, accept=self._accept())
        return self._object(response)

    async def list(
        self,
        selection: Selection = EVERYTHING,
        *,
        resource_version: str = "",
        match: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ListPage:
        """Return one page of the list, or the whole list without a `limit`."""
        query = selection.pairs() + non_empty(
            resourceVersion=resource_version, resourceVersionMatch=match, **{"continue": continue_token}
        )
        if limit:
            query.append(("limit", str(limit)))
        path = path_of(self.resource, selection.namespace)
        response = await self._send("GET", path, query, accept=self._accept(is_list=True))
        return response.page(self.codec)

    async def pages(self, selection: Selection = EVERYTHING, *, limit: int = PAGE_SIZE) -> AsyncIterator[ListPage]:
        """Yield the whole list page by page, all pages at the same resource version."""
        token = ""
        while True:
            page = await self.list(selection, limit=limit, continue_token=token)
            yield page
            if not (token := page.continue_token):
                return

    async def list_all(self, selection: Selection = EVERYTHING, *, limit: int = PAGE_SIZE) -> ListPage:
        items: list[Any] = []
        async for page in self.pages(selection, limit=limit):
            items += page.items
        return ListPage(items, page.resource_version)

    def watch(
        self,
        selection: Selection = EVERYTHING,
        *,
        resource_version: str = "",
        initial_events: bool | None = None,
        bookmarks: bool = True,
        timeout_s: int = 0,
    ) -> AbstractAsyncContextManager[Events]:
        """Start a watch; see `transport.Events`. With `initial_events` it starts with the existing objects (a streaming
        list)."""
        query = [("watch", "true"), *selection.pairs(), *non_empty(resourceVersion=resource_version)]
        if initial_events is not None:
            query += [("sendInitialEvents", str(initial_events).lower()), ("resourceVersionMatch", "NotOlderThan")]
        if bookmarks:
            query.append(("allowWatchBookmarks", "true"))
        if timeout_s:
            query.append(("timeoutSeconds", str(timeout_s)))
        path = path_of(self.resource, selection.namespace)
        request = Request(method="GET", path=path, query=query, headers={"Accept": self._accept()})
        return self._client.watch(request, self.codec)

    # -- writes ------------------------------------------------------------------------------------------------------

    async def create(self, obj: Any, namespace: str = "", *, options: WriteParameters = DEFAULT_WRITE_PARAMETERS) -> T:
        """Create the object, in `namespace` or else in the object's own namespace."""
        path = path_of(self.resource, namespace or obj.metadata.namespace)
        return self._object(await self._send("POST", path, options.pairs(), self.codec.encode(obj)))

    async def update(
        self, obj: Any, *, subresource: str = "", options: WriteParameters = DEFAULT_WRITE_PARAMETERS
    ) -> T:
        """Replace the object. Raise Conflict if it has a resource version that is not the current one."""
        path = path_of(self.resource, obj.metadata.namespace, obj.metadata.name, subresource)
        return self._object(await self._send("PUT", path, options.pairs(), self.codec.encode(obj)))

    async def update_status(self, obj: Any, *, options: WriteParameters = DEFAULT_WRITE_PARAMETERS) -> T:
        return await self.update(obj, subresource="status", options=options)

    async def patch(
        self,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
        options: WriteParameters = DEFAULT_WRITE_PARAMETERS,
    ) -> T:
        """Patch an object. `patch` is a JSON value: a list of operations, or the object to be merged or applied."""
        path = path_of(self.resource, namespace, name, subresource)
        body = json.encode(patch)
        response = await self._send(
            "PATCH", path, options.pairs(), body, content_type=type.value, accept=self._accept()
        )
        return self._object(response)

    async def apply(self, obj: Any, *, field_manager: str, force: bool = False, subresource: str = "") -> T:
        """Server-side apply an object that contains only the fields to be owned."""
        meta, options = obj.metadata, WriteParameters(field_manager=field_manager, force=force)
        path = path_of(self.resource, meta.namespace, meta.name, subresource)
        body = self.codec.encode(obj)
        return self._object(await self._send("PATCH", path, options.pairs(), body, content_type=PatchType.APPLY.value))

    async def delete(
        self, name: str, namespace: str = "", *, options: DeleteParameters = DEFAULT_DELETE_PARAMETERS
    ) -> None:
        await self._send("DELETE", path_of(self.resource, namespace, name), [], options.body())

    async def delete_collection(
        self, selection: Selection = EVERYTHING, *, options: DeleteParameters = DEFAULT_DELETE_PARAMETERS
    ) -> None:
        path = path_of(self.resource, selection.namespace)
        await self._send("DELETE", path, selection.pairs(), options.body(), accept=self._accept(is_list=True))

    # -- subresources with a kind of their own -----------------------------------------------------------------------

    async def get_subresource(self, subresource: str, name: str, namespace: str = "") -> Any:
        """Read a subresource with a kind of its own, such as Scale."""
        codec = codec_of_subresource(self.resource, subresource)
        return (await self._send("GET", path_of(self.resource, namespace, name, subresource))).object(codec)

    async def create_subresource(self, subresource: str, name: str, obj: Any, namespace: str = "") -> Any:
        """Create a subresource with a kind of its own: Binding, Eviction or TokenRequest."""
        codec, path = codec_of_subresource(self.resource, subresource), path_of(self.resource, namespace, name)
        return (await self._send("POST", f"{path}/{subresource}", [], codec.encode(obj))).object(codec)

    async def update_subresource(self, subresource: str, name: str, obj: Any, namespace: str = "") -> Any:
        codec, path = codec_of_subresource(self.resource, subresource), path_of(self.resource, namespace, name)
        return (await self._send("PUT", f"{path}/{subresource}", [], codec.encode(obj))).object(codec)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _accept(self, *, is_list: bool = False) -> str:
        if not self.codec.is_metadata:
            return _JSON
        return _PARTIAL_LIST if is_list else _PARTIAL

    async def _send(
        self,
        method: str,
        path: str,
        query: Pairs | Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> Response:
        headers = {"Accept": accept, "Content-Type": content_type} if body else {"Accept": accept}
        return await self._client.send(Request(method=method, path=path, query=query, headers=headers, body=body))

    def _object(self, response: Response) -> T:
        obj: T = response.object(self.codec)
        return obj


class WarningLog:
    """Logs each distinct warning once, up to a limit."""

    _MAX_WARNINGS = 1000

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < self._MAX_WARNINGS:
            self._warned.add(text)
            log.info("warning from the API server: %s", text)


@dataclass(frozen=True, slots=True)
class RetryConfig:
    attempts: int = 10
    connections: int = 3
    """The maximum number of attempts of a request that gets no response."""
    connection_pause_s: float = 0.1
    """The delay before a request without a response is sent again; doubled each time."""


class Client:
    """`client.for_kind(Pod)` returns the client of a built-in kind, `client.resource(row)` that of any resource.

    Requests that the server rejects with a Retry-After (429 or 5xx) are sent again after that time. Requests without a
    response are sent again if the server cannot have executed them or they only read.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        clock: Clock,
        component: str,
        retry: RetryConfig | None = None,
        on_warning: OnWarning | None = None,
        metrics: ClientRequestMetrics | None = None,
    ) -> None:
        self._transport, self._clock = transport, clock
        self.metrics = metrics or ClientRequestMetrics()
        self._on_warning = on_warning or WarningLog()
        self._user_agent = f"{component}/sampan"
        self._retry = retry or RetryConfig()

    def for_kind(self, type: type[T]) -> ResourceClient[T]:
        return self.resource(resource_of(type))

    def resource(self, resource: Resource) -> ResourceClient[Any]:
        return ResourceClient(client=self, resource=resource, codec=codec_of(resource))

    def metadata(self, resource: Resource) -> ResourceClient[Any]:
        """Return a client that reads PartialObjectMetadata of any resource; deletes and patches work as usual."""
        return ResourceClient(client=self, resource=resource, codec=METADATA)

    async def send(self, request: Request) -> Response:
        request = self._add_user_agent(request)
        if request.method != "GET":
            note_write(request.method, request.path)
        for attempt in range(1, self._retry.attempts):
            try:
                return await self._send(request)
            except errors.ApiError as error:
                if not (error.retry_after_s > 0 and _is_retriable(error)):
                    raise
                pause_s = float(error.retry_after_s)
            except ConnectionFailed as failure:
                if failure.may_have_happened or attempt >= self._retry.connections:
                    raise
                pause_s = self._retry.connection_pause_s * 2 ** (attempt - 1)
            log.debug("%s %s: retrying in %g s", request.method, request.path, pause_s)
            await self._clock.sleep(pause_s)
        return await self._send(request)

    @asynccontextmanager
    async def watch(self, request: Request, codec: ObjectCodec) -> AsyncIterator[Events]:
        """Run a watch for the duration of the block. It is not retried: only the caller knows from which resource
        version to continue."""
        async with AsyncExitStack() as running:
            with self.metrics.measure(request.method):
                watch = self._transport.watch(self._add_user_agent(request), codec)
                events = await running.enter_async_context(watch)
            yield events

    async def _send(self, request: Request) -> Response:
        with self.metrics.measure(request.method) as measurement:
            response = await self._transport.send(request)
            measurement.code = response.status
        for text in response.warnings:
            self._on_warning(text)
        return response

    def _add_user_agent(self, request: Request) -> Request:
        return replace(request, headers={"User-Agent": self._user_agent, **request.headers})


def _is_retriable(error: errors.ApiError) -> bool:
    """Whether a response with Retry-After is retried here; a PodDisruptionBudget that blocks an eviction is the
    caller's decision."""
    if error.has_cause("DisruptionBudget"):
        return False
    return error.code == 429 or error.code >= 500
