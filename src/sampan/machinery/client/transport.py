"""The contract between the client and what carries its requests: HTTP, or a loopback into a server in this process.

Requests go out as encoded bytes on every transport. Answers come back in a form that the transport chooses: bytes that
are decoded on demand, or objects that the server's cache holds already, shared by all and therefore read-only.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.object_key import Key

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streamed list."""


class ConnectionFailed(Exception):
    """No answer came. `may_have_happened` tells whether the server could have carried out the request all the same."""

    def __init__(self, message: str, *, may_have_happened: bool) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    """Decoded."""
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Page:
    """A list, or a part of one."""

    items: Sequence[Any]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class Response(Protocol):
    """A successful answer."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def warnings(self) -> Sequence[str]:
        """What the server wants people to know."""

    def body(self) -> bytes: ...

    def object(self, codec: ObjectCodec) -> Any:
        """The object in the answer; read-only."""

    def page(self, codec: ObjectCodec) -> Page:
        """The list in the answer; its items are read-only."""


class WatchEvent(Protocol):
    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED or BOOKMARK; an ERROR is raised instead."""

    @property
    def key(self) -> Key:
        """The object's key; of a bookmark an empty one."""

    @property
    def resource_version(self) -> str: ...

    @property
    def ends_initial_events(self) -> bool:
        """The bookmark after which a streamed list is complete."""

    @property
    def object(self) -> Any:
        """Of a deletion the last state; read-only. A bookmark has only metadata."""


Events = AsyncIterator[Sequence[WatchEvent]]
"""Each turn gives the events that are there, at least one. It ends quietly when the server ends the watch in good
order, and raises ApiError (Expired and others) or ConnectionFailed if there may be a gap."""


class Transport(Protocol):
    async def send(self, request: Request) -> Response:
        """Carry out a request. Raises ApiError for an answer that is a failure, ConnectionFailed if none came."""

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        """Carry out a watch for as long as the block lasts; entering raises as `send` does."""

    async def close(self) -> None:
        """Release connections; nothing may be sent afterwards."""


__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "INITIAL_EVENTS_END",
    "MODIFIED",
    "ConnectionFailed",
    "Events",
    "Page",
    "Request",
    "Response",
    "Transport",
    "WatchEvent",
]
