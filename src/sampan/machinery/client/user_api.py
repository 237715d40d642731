"""The contract for Kubernetes requests with the rights of one user, for servers that act on behalf of people.

A `UserApi` holds the user's own credentials; there is no impersonation. Inside the process of an API server a request
enters its pipeline at authentication, so that authentication, authorization, admission, audit and flow control apply
to it as to any other; for another cluster it is sent over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery.client.responses import BytesResponse
from sampan.machinery.client.transport import Request

if TYPE_CHECKING:
    from multidict import CIMultiDict

EventLines = AsyncIterator[Sequence[bytes]]
"""An iterator over batches of watch events, each as a line of JSON. It ends when the server closes the watch normally,
and raises ApiError or ConnectionFailed if events may have been missed."""

PrepareResponse = Callable[["StreamResponse"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredentials:
    """A bearer token, a user name with a password, or a client certificate with its key."""

    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    client_cert_pem: bytes = field(default=b"", repr=False)
    client_key_pem: bytes = field(default=b"", repr=False)


class UserApi(Protocol):
    async def send(self, request: Request) -> BytesResponse:
        """Send a request. Raise ApiError for an error response, ConnectionFailed if no response was received."""

    def watch(self, request: Request) -> AbstractAsyncContextManager[EventLines]:
        """Run a watch for as long as the block lasts; entering raises like `send`."""

    async def forward(
        self, request: HttpRequest, *, target: str, headers: CIMultiDict[str], prepare: PrepareResponse
    ) -> StreamResponse | None:
        """Serve a request by the response to `target`, an encoded path with its query. `headers` replace those of the
        request; the credentials are added. `prepare` is called with each response before its head is sent. An upgraded
        connection is passed through."""

    async def close(self) -> None:
        """Release the connections; nothing may be sent afterwards."""


class UserApiSource(Protocol):
    """A cluster that users log in to."""

    async def open_with_credentials(self, credentials: UserCredentials) -> UserApi:
        """Return the API with the rights of these credentials. A certificate is verified here, together with its key;
        raise Unauthorized if it is invalid. Other credentials are verified with each request."""

    async def open_for_request(self, request: HttpRequest) -> UserApi:
        """Return the API with the credentials that authenticate this very request: its bearer token or the client
        certificate of its connection. Raise Unauthorized if it has none."""


class RestorableApiSource(UserApiSource, Protocol):
    """A cluster whose `UserApi`s can be restored after a restart of the server."""

    def save(self, api: UserApi) -> bytes:
        """Return the credentials of an API that this source has opened. They are as secret as the credentials."""

    def restore(self, saved: bytes) -> UserApi:
        """Return the API with saved credentials. Raise Unauthorized if they are not valid any more."""
