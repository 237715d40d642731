"""A client of the OCI distribution protocol: manifests and blobs, with basic and bearer authentication."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from yarl import URL

from sampan.api import limits
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.runtimes.images import manifests
from sampan.runtimes.images.credentials import RegistryCredentials
from sampan.runtimes.images.manifests import BadImage

_ACCEPT = ", ".join(sorted(manifests.MANIFESTS | manifests.INDEXES))
_MAX_ERROR_BYTES = 4 << 10
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
_PARAMETER = re.compile(r'(?<!\w)(\w++)="([^"]*)"')
"""The pattern of a parameter in a challenge. Without the lookbehind each letter of a long word would be tried as the
start of a match, in quadratic time."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HUB = {"docker.io": "registry-1.docker.io"}


class RegistryError(Exception):
    """A request to a registry failed. `code` is the HTTP status, or 0 if there was no response."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class RegistryClient:
    """A client of one repository of a registry, with one set of credentials. The clients of all registries share the
    `session`."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        host: str,
        repository: str,
        credentials: RegistryCredentials | None = None,
        is_plain: bool = False,
    ) -> None:
        scheme = "http" if is_plain else "https"
        self._base = f"{scheme}://{_HUB.get(host, host)}/v2/{repository}"
        self._origin = _origin(URL(self._base))
        self._session, self.host, self._repository = session, host, repository
        self._credentials = credentials or RegistryCredentials()
        self._authorization = ""

    async def manifest(self, reference: str) -> bytes:
        """Return the manifest with that tag or digest."""
        async with self._get(f"/manifests/{reference}", {"Accept": _ACCEPT}) as response:
            return await _read_bounded(response, limits.IMAGE_DOCUMENT_BYTES)

    @asynccontextmanager
    async def blob(self, digest: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield an iterator over the content of a blob."""
        async with self._get(f"/blobs/{digest}") as response:
            yield _pieces(response)

    @asynccontextmanager
    async def _get(self, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and repeat it with authentication if the registry requires it."""
        try:
            response = await self._request(path, headers or {})
            if response.status == 401 and await self._identify(response):
                response.release()
                response = await self._request(path, headers or {})
            async with response:
                if response.status != 200:
                    raise await _failure(response, self.host, is_shown=_origin(response.url) == self._origin)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RegistryError(f"{self.host}: {error or type(error).__name__}") from error

    async def _request(self, path: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """Send a request and follow a limited number of redirects. The Authorization header is sent only to the
        registry itself, never to another host that it redirects to."""
        url = URL(self._base + path)
        for _ in range(limits.REGISTRY_REDIRECTS + 1):
            is_own = _origin(url) == self._origin
            own = {"Authorization": self._authorization} if self._authorization and is_own else {}
            response = await self._session.get(url, headers={**headers, **own}, timeout=_TIMEOUT, allow_redirects=False)
            if response.status not in _REDIRECTS:
                return response
            response.release()
            url = _redirect_target(url, response.headers.get("Location", ""), self.host)
        raise RegistryError(f"{self.host}: stopped after {limits.REGISTRY_REDIRECTS} redirects")

    async def _identify(self, response: aiohttp.ClientResponse) -> bool:
        """Respond to the registry's authentication challenge. Return False if that is not possible."""
        if _origin(response.url) != self._origin:
            return False  # do not authenticate to another host that the registry redirects to
        scheme, _, remainder = response.headers.get("WWW-Authenticate", "").partition(" ")
        if scheme.lower() == "basic" and self._credentials.username:
            self._authorization = _basic(self._credentials)
            return True
        if scheme.lower() != "bearer":
            return False
        if self._credentials.registry_token:
            self._authorization = f"Bearer {self._credentials.registry_token}"
            return True
        parameters = dict(_PARAMETER.findall(remainder))
        token = await self._token(parameters)
        self._authorization = f"Bearer {token}"
        return bool(token)

    async def _token(self, parameters: Mapping[str, str]) -> str:
        realm = parameters.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            return ""
        scope = parameters.get("scope") or f"repository:{self._repository}:pull"
        query = {"service": parameters.get("service", ""), "scope": scope}
        credentials = self._credentials
        if credentials.identity_token:
            form = {
                **query,
                "grant_type": "refresh_token",
                "refresh_token": credentials.identity_token,
                "client_id": "sampan",
            }
            request = self._session.post(realm, data=form, timeout=_TIMEOUT, allow_redirects=False)
        else:
            headers = {"Authorization": _basic(credentials)} if credentials.username else {}
            request = self._session.get(realm, params=query, headers=headers, timeout=_TIMEOUT, allow_redirects=False)
        async with request as response:
            if response.status != 200:
                is_shown = _origin(response.url) == self._origin
                raise await _failure(response, self.host, is_shown=is_shown)
            return _token_in(await _read_bounded(response, limits.REGISTRY_TOKEN_BYTES), self.host)


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def _redirect_target(url: URL, location: str, host: str) -> URL:
    try:
        target = url.join(URL(location))
    except ValueError:
        raise RegistryError(f"{host}: the registry redirects to an invalid URL") from None
    if not location or target.scheme not in ("http", "https") or not target.host:
        raise RegistryError(f"{host}: the registry redirects to {location[:200]!r}, which is not fetched")
    return target


def _token_in(data: bytes, host: str) -> str:
    try:
        value = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RegistryError(f"{host}: the token service did not respond with JSON") from None
    token = str(value.get("token") or value.get("access_token") or "")
    if not token.isascii() or not token.isprintable():
        raise RegistryError(f"{host}: the response of the token service contains no token")
    return token


async def _read_bounded(response: aiohttp.ClientResponse, maximum: int) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_chunked(1 << 16):
        data += piece
        if len(data) > maximum:
            raise BadImage(f"the registry's response is larger than {maximum} bytes")
    return bytes(data)


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for data in response.content.iter_chunked(1 << 18):
        yield data


async def _failure(response: aiohttp.ClientResponse, host: str, *, is_shown: bool) -> RegistryError:
    """Return an error for the response. The body is omitted if it comes from another host that the registry redirects
    to: otherwise a registry could make the node read services of its own network and disclose them in the events of the
    pod."""
    meaning = {401: "authentication is required", 403: "access is denied", 404: "not found"}.get(response.status, "")
    text = f"{host}: {response.status} {meaning or response.reason}"
    if is_shown:
        text += f": {_error_messages((await response.content.read(_MAX_ERROR_BYTES)).decode('utf-8', 'replace'))}"
    return RegistryError(text, response.status)


def _error_messages(text: str) -> str:
    """Return the error messages in the body of a response."""
    try:
        errors = msgspec.json.decode(text)["errors"]
        return "; ".join(f"{error.get('code', '')}: {error.get('message', '')}" for error in errors)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return " ".join(text.split())[:200]


def _basic(credentials: RegistryCredentials) -> str:
    pair = f"{credentials.username}:{credentials.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"
