"""The client: sends requests with retries, and creates the clients of resources."""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sampan.api.resource import Resource
from sampan.machinery import errors
from sampan.machinery.client.codecs import METADATA, ObjectCodec, codec_of, resource_of
from sampan.machinery.client.resource import ResourceClient
from sampan.machinery.client.transport import ConnectionFailed, Events, Request, Response, Transport
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")

OnWarning = Callable[[str], None]
"""Called with each warning from a response's Warning headers."""


class WarningLog:
    """Logs each distinct warning once, up to a limit."""

    _MOST = 1000

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < self._MOST:
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
    """`client.of(Pod)` returns the client of a built-in kind, `client.resource(row)` that of any resource.

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
    ) -> None:
        self._transport, self._clock = transport, clock
        self._on_warning = on_warning or WarningLog()
        self._user_agent = f"{component}/sampan"
        self._retry = retry or RetryConfig()

    def of(self, type: type[T]) -> ResourceClient[T]:
        return self.resource(resource_of(type))

    def resource(self, resource: Resource) -> ResourceClient[Any]:
        return ResourceClient(client=self, resource=resource, codec=codec_of(resource))

    def metadata(self, resource: Resource) -> ResourceClient[Any]:
        """Return a client that reads PartialObjectMetadata of any resource; deletes and patches work as usual."""
        return ResourceClient(client=self, resource=resource, codec=METADATA)

    async def send(self, request: Request) -> Response:
        request = self._signed(request)
        for attempt in range(1, self._retry.attempts):
            try:
                return self._checked(await self._transport.send(request))
            except errors.ApiError as error:
                if not (error.retry_after_s > 0 and _is_put_off(error)):
                    raise
                pause_s = float(error.retry_after_s)
            except ConnectionFailed as failure:
                if failure.may_have_happened or attempt >= self._retry.connections:
                    raise
                pause_s = self._retry.connection_pause_s * 2 ** (attempt - 1)
            log.debug("%s %s: retrying in %g s", request.method, request.path, pause_s)
            await self._clock.sleep(pause_s)
        return self._checked(await self._transport.send(request))

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        """Start a watch. It is not retried: only the caller knows from which resource version to continue."""
        return self._transport.watch(self._signed(request), codec)

    def _checked(self, response: Response) -> Response:
        for text in response.warnings:
            self._on_warning(text)
        return response

    def _signed(self, request: Request) -> Request:
        return replace(request, headers={"User-Agent": self._user_agent, **request.headers})


def _is_put_off(error: errors.ApiError) -> bool:
    """Whether a response with Retry-After is retried here; a PodDisruptionBudget that blocks an eviction is the
    caller's decision."""
    if error.has_cause("DisruptionBudget"):
        return False
    return error.code == 429 or error.code >= 500
