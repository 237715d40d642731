"""HTTP sessions; every component sends its HTTP requests through them.

A session never follows redirects on its own, because the responding server would then choose where our credentials are
sent. Where a redirect may be followed, `get_following` does so by an explicit rule."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from yarl import URL

from sampan.machinery.http.lean_aiohttp import aiohttp

if TYPE_CHECKING:
    from aiohttp.client import _RequestContextManager

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 10


class TooManyRedirects(ValueError):
    """The server sent more than ten redirects in a row."""


class HttpSession:
    """An aiohttp session that does not follow redirects. It takes the options of `aiohttp.ClientSession`."""

    def __init__(self, **options: Any) -> None:
        self._session = aiohttp.ClientSession(**options)

    @property
    def closed(self) -> bool:
        return self._session.closed

    def request(self, method: str, url: str | URL, **options: Any) -> _RequestContextManager:
        return self._session.request(method, url, allow_redirects=False, **options)

    def get(self, url: str | URL, **options: Any) -> _RequestContextManager:
        return self.request("GET", url, **options)

    def post(self, url: str | URL, **options: Any) -> _RequestContextManager:
        return self.request("POST", url, **options)

    async def close(self) -> None:
        await self._session.close()

    async def __aenter__(self) -> HttpSession:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


@asynccontextmanager
async def get_following(
    session: HttpSession, url: URL, headers: Mapping[str, str], *, may_leave_host: bool = False
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a GET request and follow at most ten redirects, as the kubelet's probes do.

    Without `may_leave_host` a redirect to another host is not followed: the redirect response itself is yielded.
    """
    for _ in range(_MAX_REDIRECTS + 1):
        async with session.get(url, headers=headers) as response:
            location = response.headers.get("Location") if response.status in REDIRECTS else None
            target = url.join(URL(location)) if location is not None else url
            if location is None or (target.host != url.host and not may_leave_host):
                yield response
                return
            url = target
    raise TooManyRedirects(f"stopped after {_MAX_REDIRECTS} redirects")
