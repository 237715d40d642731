"""A subscription to a list of objects: a snapshot in pages, then the changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.dashboard.pass_through import check_path
from sampan.dashboard.stream.changes import ChangeBudget, CoalescedChanges
from sampan.dashboard.stream.rows import ObjectReader, RowPage, RowReader, TableReader
from sampan.host.backoff import Backoff, RetryDelays
from sampan.machinery import errors
from sampan.machinery.client.transport import ConnectionFailed, Request
from sampan.machinery.client.user_api import UserApi

_DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE = 500, 1000
_MAX_ROWS = 50_000
"""The maximum number of rows of a list that are sent. The message says how many rows remain."""
_WATCH_TIMEOUT_S = "1800"
_BACKOFF = Backoff(1.0, 30.0)
_LASTING_CODES = frozenset({400, 401, 403, 404, 405, 406})
"""Status codes that do not change with a retry."""
_SELECTOR_LENGTH = 4096
_encode = msgspec.json.Encoder().encode


class SubscribeMessage(msgspec.Struct):
    """A message of a dashboard page that starts or changes a subscription."""

    id: int = 0
    op: str = ""
    path: str = ""
    kind: str = ""
    """`overview`, or empty for a list of objects."""
    table: bool = False
    labelSelector: str = ""
    fieldSelector: str = ""
    limit: int = 0
    namespace: str = ""
    """The namespace of an overview; empty: the whole cluster."""


class Subscription(Protocol):
    async def run(self) -> None:
        """Follow the objects until the subscription cannot be continued."""

    def take(self) -> bytes | None:
        """Return the message with the pending changes; None if there are none."""


class ListSubscription:
    """A subscription to a list of objects. `send` sends a message and returns when the connection has taken it; `mark`
    requests a call of `take`. A page of the list is read and sent while `list_turn` is held, so that only few pages
    wait in memory for a browser that does not read."""

    def __init__(
        self,
        *,
        message: SubscribeMessage,
        api: UserApi,
        send: Callable[[bytes], Awaitable[None]],
        mark: Callable[[], None],
        budget: ChangeBudget,
        list_turn: asyncio.Semaphore,
    ) -> None:
        check_subscription(message)
        self._list_turn = list_turn
        self._id, self._path, self._api, self._send, self._mark = message.id, message.path, api, send, mark
        self._reader: RowReader = TableReader() if message.table else ObjectReader()
        self._selectors = [
            (name, value)
            for name, value in (("labelSelector", message.labelSelector), ("fieldSelector", message.fieldSelector))
            if value
        ]
        self._limit = min(message.limit, _MAX_PAGE_SIZE) if message.limit > 0 else _DEFAULT_PAGE_SIZE
        self._rows_name = b"rows" if message.table else b"objects"
        self._changes = CoalescedChanges(budget)

    async def run(self) -> None:
        self._changes.open()
        try:
            await self._follow()
        finally:
            self._changes.close()

    async def _follow(self) -> None:
        delays = RetryDelays(_BACKOFF)
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                delays.reset()
                version = await self._watch(version)
            except (errors.Expired, errors.Gone):
                version = ""
            except errors.ApiError as error:
                await self._send(error_message(self._id, error))
                if error.code in _LASTING_CODES:
                    return
                version = ""
                await asyncio.sleep(max(delays.next_s(), error.retry_after_s))
            except ConnectionFailed as error:
                await self._send(error_message(self._id, errors.service_unavailable(str(error))))
                version = ""
                await asyncio.sleep(delays.next_s())

    def take(self) -> bytes | None:
        if not self._changes:
            return None
        changes, has_more = self._changes.take()
        if has_more:
            self._mark()
        version = _encode(self._changes.resource_version)
        return b'{"id":%d,"type":"changes","changes":%b,"resourceVersion":%b}' % (self._id, changes, version)

    async def _list(self) -> str:
        """Send the list, and return its resource version. The first page is the snapshot; the rows of further pages are
        sent as changes, so that the first rows are shown at once."""
        self._changes.clear()
        continue_token, count, version = "", 0, ""
        while True:
            async with self._list_turn:
                page = await self._page(continue_token)
                version, count = page.resource_version, count + len(page.rows)
                has_more = bool(page.continue_token) and count < _MAX_ROWS
                is_first = not continue_token
                await self._send(self._snapshot(page, has_more) if is_first else self._following_page(page, has_more))
            continue_token = page.continue_token
            if not has_more:
                return version

    async def _page(self, continue_token: str) -> RowPage:
        query = [*self._selectors, ("limit", str(self._limit))]
        if continue_token:
            query.append(("continue", continue_token))
        request = Request(method="GET", path=self._path, query=query, headers={"Accept": self._reader.accept})
        body = (await self._api.send(request)).body()
        try:
            return self._reader.page(body)
        except JSON_ERRORS as error:
            raise errors.bad_request(f"the response is not a list: {error}") from None

    def _snapshot(self, page: RowPage, has_more: bool) -> bytes:
        columns = b',"columns":%b' % page.columns if page.columns else b""
        return b'{"id":%d,"type":"snapshot"%b,"%b":[%b]%b}' % (
            self._id,
            columns,
            self._rows_name,
            b",".join(row for _, row in page.rows),
            _page_end(page, has_more),
        )

    def _following_page(self, page: RowPage, has_more: bool) -> bytes:
        rows = b",".join(b'["PUT",%b]' % row for _, row in page.rows)
        return b'{"id":%d,"type":"changes","changes":[%b]%b}' % (self._id, rows, _page_end(page, has_more))

    async def _watch(self, version: str) -> str:
        """Collect changes until the watch ends. Return the resource version from which the next watch resumes."""
        query = [
            *self._selectors,
            ("watch", "true"),
            ("resourceVersion", version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", _WATCH_TIMEOUT_S),
        ]
        request = Request(method="GET", path=self._path, query=query, headers={"Accept": self._reader.accept})
        async with self._api.watch(request) as events:
            async for lines in events:
                for line in lines:
                    for change in self._reader.changes(line):
                        version = change.resource_version or version
                        if change.key:
                            self._changes.add(change.key, change.row)
                self._changes.resource_version = version
                if self._changes.is_overflowed:
                    return ""
                if self._changes:
                    self._mark()
        return version


def check_subscription(message: SubscribeMessage) -> None:
    if not message.path.startswith(("/api/", "/apis/")) or "?" in message.path or "%" in message.path:
        raise errors.bad_request("the path of a subscription is that of a list, without a query")
    check_path(message.path)
    if max(len(message.path), len(message.labelSelector), len(message.fieldSelector)) > _SELECTOR_LENGTH:
        raise errors.bad_request("the path or a selector of the subscription is too long")


def error_message(identifier: int, error: errors.ApiError) -> bytes:
    return _encode({"id": identifier, "type": "error", "status": error.status})


def _page_end(page: RowPage, has_more: bool) -> bytes:
    """Return the JSON of the last fields of a list page. With a selector, the API server does not say how many rows
    remain."""
    remaining = page.remaining if page.remaining is not None or page.continue_token else 0
    return b',"resourceVersion":%b,"remaining":%b,"more":%b' % (
        _encode(page.resource_version),
        _encode(remaining),
        b"true" if has_more else b"false",
    )
