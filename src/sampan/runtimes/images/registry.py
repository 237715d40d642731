"""A registry, as the distribution protocol has it: manifests and blobs, with whatever proof of identity it asks for."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sampan.machinery.lean_aiohttp import aiohttp
from sampan.runtimes.images import manifests
from sampan.runtimes.images.credentials import Credentials
from sampan.runtimes.images.manifests import BadImage

_ACCEPT = ", ".join(sorted(manifests.MANIFESTS | manifests.INDEXES))
_MOST_MANIFEST = 4 << 20
_MOST_ERROR = 4 << 10
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_HUB = {"docker.io": "registry-1.docker.io"}


class RegistryError(Exception):
    """A registry that did not give what was asked for. `code` is 0 where it did not answer at all."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Registry:
    """One registry and one repository in it, as one user. `session` is shared by all."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        host: str,
        repository: str,
        credentials: Credentials | None = None,
        is_plain: bool = False,
    ) -> None:
        scheme = "http" if is_plain else "https"
        self._base = f"{scheme}://{_HUB.get(host, host)}/v2/{repository}"
        self._session, self.host, self._repository = session, host, repository
        self._credentials = credentials or Credentials()
        self._authorization = ""

    async def manifest(self, reference: str) -> bytes:
        """By tag or digest."""
        async with self._get(f"/manifests/{reference}", {"Accept": _ACCEPT}) as answer:
            data: bytes = await answer.content.read(_MOST_MANIFEST + 1)
            while len(data) <= _MOST_MANIFEST and (more := await answer.content.read(_MOST_MANIFEST)):
                data += more
        if len(data) > _MOST_MANIFEST:
            raise BadImage("the manifest is too large")
        return data

    @asynccontextmanager
    async def blob(self, digest: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The content piece by piece."""
        async with self._get(f"/blobs/{digest}") as answer:
            yield _pieces(answer)

    @asynccontextmanager
    async def _get(self, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request that is sent again, with proof of identity, where the registry asks for it."""
        try:
            answer = await self._request(path, headers or {})
            if answer.status == 401 and await self._identify(answer):
                answer.release()
                answer = await self._request(path, headers or {})
            async with answer:
                if answer.status != 200:
                    raise await _failure(answer, self.host)
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as fault:
            raise RegistryError(f"{self.host}: {fault or type(fault).__name__}") from fault

    async def _request(self, path: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        own = {"Authorization": self._authorization} if self._authorization else {}
        return await self._session.get(self._base + path, headers={**headers, **own}, timeout=_TIMEOUT)

    async def _identify(self, answer: aiohttp.ClientResponse) -> bool:
        """Do what the registry's challenge asks for; False if that cannot be done."""
        scheme, _, rest = answer.headers.get("WWW-Authenticate", "").partition(" ")
        if scheme.lower() == "basic" and self._credentials.username:
            self._authorization = _basic(self._credentials)
            return True
        if scheme.lower() != "bearer":
            return False
        if self._credentials.registry_token:
            self._authorization = f"Bearer {self._credentials.registry_token}"
            return True
        parameters = dict(_PARAMETER.findall(rest))
        token = await self._token(parameters)
        self._authorization = f"Bearer {token}"
        return bool(token)

    async def _token(self, parameters: Mapping[str, str]) -> str:
        realm = parameters.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            return ""
        scope = parameters.get("scope") or f"repository:{self._repository}:pull"
        query = {"service": parameters.get("service", ""), "scope": scope}
        found = self._credentials
        if found.identity_token:
            form = {
                **query,
                "grant_type": "refresh_token",
                "refresh_token": found.identity_token,
                "client_id": "sampan",
            }
            request = self._session.post(realm, data=form, timeout=_TIMEOUT)
        else:
            headers = {"Authorization": _basic(found)} if found.username else {}
            request = self._session.get(realm, params=query, headers=headers, timeout=_TIMEOUT)
        async with request as answer:
            if answer.status != 200:
                raise await _failure(answer, self.host)
            value: dict[str, Any] = await answer.json(content_type=None)
        return str(value.get("token") or value.get("access_token") or "")


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for data in answer.content.iter_chunked(1 << 18):
        yield data


async def _failure(answer: aiohttp.ClientResponse, host: str) -> RegistryError:
    text = (await answer.content.read(_MOST_ERROR)).decode("utf-8", "replace")
    meaning = {401: "authentication is required", 403: "access is denied", 404: "not found"}.get(answer.status, "")
    return RegistryError(f"{host}: {answer.status} {meaning or answer.reason}: {_told(text)}", answer.status)


def _told(text: str) -> str:
    """What the registry says, without what is around it."""
    import json

    try:
        errors = json.loads(text)["errors"]
        return "; ".join(f"{each.get('code', '')}: {each.get('message', '')}" for each in errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        return " ".join(text.split())[:200]


def _basic(credentials: Credentials) -> str:
    pair = f"{credentials.username}:{credentials.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


__all__ = ["Registry", "RegistryError"]
