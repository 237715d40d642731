"""Keep the objects of one kind up to date by list and watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from sampan.host.backoff import Backoff, RetryDelays
from sampan.machinery import errors
from sampan.machinery.client.transport import BOOKMARK, DELETED, ConnectionFailed, Request
from sampan.machinery.client.user_api import UserApi

T = TypeVar("T", bound=msgspec.Struct)

_PAGE = "500"
_TIMEOUT_S = "1800"
_BACKOFF = Backoff(1.0, 30.0)
_LASTING_CODES = frozenset({400, 401, 403, 404, 405, 406})
_HEADERS = {"Accept": "application/json"}


class _ListMeta(msgspec.Struct, rename={"continue_": "continue"}):
    resourceVersion: str = ""
    continue_: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _VersionedObject(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_WatchEvent).decode
_decode_versioned = msgspec.json.Decoder(_VersionedObject).decode


class ObjectFollower(Generic[T]):
    """Lists and watches the objects of a kind. Calls `on_reset` before each list, `on_object` for each new or changed
    object, and `on_deleted` with the last state of a deleted object. Sets `is_forbidden` if the person may not list the
    kind, and `failure` for as long as the kind cannot be read, whatever the reason. A kind that the server does not
    have has no objects."""

    def __init__(
        self,
        *,
        api: UserApi,
        path: str,
        type: type[T],
        on_reset: Callable[[], None],
        on_object: Callable[[T], None],
        on_deleted: Callable[[T], None],
        query: Sequence[tuple[str, str]] = (),
        max_objects: int = 100_000,
    ) -> None:
        self._api, self._path, self._query, self._max_objects = api, path, list(query), max_objects
        self._decode = msgspec.json.Decoder(type).decode
        self._on_reset, self._on_object, self._on_deleted = on_reset, on_object, on_deleted
        self.is_forbidden = False
        self.failure = ""
        self.synced = asyncio.Event()
        """Set once the first list has been read or has failed."""

    async def run(self) -> None:
        version, delays = "", RetryDelays(_BACKOFF)
        while True:
            try:
                version = await self._watch(version or await self._list())
                delays.reset()
                continue
            except (errors.Expired, errors.Gone):
                version = ""
                continue
            except errors.ApiError as error:
                self.is_forbidden = error.code in (401, 403)
                self.failure = (
                    "" if error.code == 404 else error.message or f"the server responds with status {error.code}"
                )
                if error.code in _LASTING_CODES:
                    self._on_reset()
                    self.synced.set()
                    return
            except (ConnectionFailed, msgspec.MsgspecError) as error:
                self.failure = str(error) or type(error).__name__
            self.synced.set()
            version = ""
            await asyncio.sleep(delays.next_s())

    async def _list(self) -> str:
        self._on_reset()
        continue_token, count = "", 0
        while True:
            query = [*self._query, ("limit", _PAGE)]
            if continue_token:
                query.append(("continue", continue_token))
            request = Request(method="GET", path=self._path, query=query, headers=_HEADERS)
            page = _decode_list((await self._api.send(request)).body())
            for raw in page.items or ():
                self._on_object(self._decode(raw))
            count += len(page.items or ())
            continue_token = page.metadata.continue_
            if not continue_token or count >= self._max_objects:
                self.failure = ""
                self.synced.set()
                return page.metadata.resourceVersion
            await asyncio.sleep(0)

    async def _watch(self, version: str) -> str:
        query = [
            *self._query,
            ("watch", "true"),
            ("resourceVersion", version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", _TIMEOUT_S),
        ]
        request = Request(method="GET", path=self._path, query=query, headers=_HEADERS)
        async with self._api.watch(request) as events:
            async for lines in events:
                for line in lines:
                    version = self._take(line) or version
        return version

    def _take(self, line: bytes) -> str:
        event = _decode_event(line)
        if event.type == "ERROR":
            raise errors.from_status(msgspec.json.decode(event.object))
        version = _decode_versioned(event.object).metadata.resourceVersion
        if event.type == BOOKMARK:
            return version
        obj = self._decode(event.object)
        if event.type == DELETED:
            self._on_deleted(obj)
        else:
            self._on_object(obj)
        return version
