"""The contract between the client and its transport: HTTP, or a loopback into a server in the same process.

Requests are encoded as bytes on every transport. Responses come in a form that the transport chooses: bytes that are
decoded on demand, or objects of the server's cache, which are shared and therefore read-only.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.object_key import NamespacedName

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streaming list."""


class ConnectionFailed(Exception):
    """No response was received. `may_have_happened` is true if the server may have executed the request
    nevertheless."""

    def __init__(self, message: str, *, may_have_happened: bool) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    """The URL path without percent-encoding."""
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list, or one page of it."""

    items: Sequence[Any]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class Response(Protocol):
    """A successful response."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def warnings(self) -> Sequence[str]:
        """The texts of the Warning headers."""

    def body(self) -> bytes: ...

    def object(self, codec: ObjectCodec) -> Any:
        """Return the object in the response; read-only."""

    def page(self, codec: ObjectCodec) -> ListPage:
        """Return the list in the response; its items are read-only."""


class WatchEvent(Protocol):
    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED or BOOKMARK; an ERROR event is raised instead."""

    @property
    def key(self) -> NamespacedName:
        """The key of the object; empty for a bookmark."""

    @property
    def resource_version(self) -> str: ...

    @property
    def ends_initial_events(self) -> bool:
        """Whether the event is the bookmark after which a streaming list is complete."""

    @property
    def object(self) -> Any:
        """The object, read-only. A DELETED event has the last state; a bookmark has only metadata."""


Events = AsyncIterator[Sequence[WatchEvent]]
"""An iterator over batches of available events, at least one per batch. It ends when the server closes the watch
normally, and raises ApiError (Expired and others) or ConnectionFailed if events may have been missed."""


class Transport(Protocol):
    async def send(self, request: Request) -> Response:
        """Send a request. Raise ApiError for an error response, ConnectionFailed if no response was received."""

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        """Run a watch for as long as the block lasts; entering raises like `send`."""

    async def close(self) -> None:
        """Release the connections; nothing may be sent afterwards."""
