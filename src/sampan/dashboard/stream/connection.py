"""The WebSocket connection of a page.

One task reads the messages of the page, one task runs each subscription, and one task writes. The writer sends the
pending changes of a subscription at most every 100 ms, and only when the socket has taken the previous message. Changes
in between are coalesced, so that a slow page delays nothing and gets the latest state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.dashboard.request_checks import websocket_protocols
from sampan.dashboard.sessions import LoginSession
from sampan.dashboard.stream.changes import ChangeBudget
from sampan.dashboard.stream.subscription import ListSubscription, SubscribeMessage, Subscription, error_message
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.user_api import UserApi
from sampan.machinery.multiplex.handshake import UpgradeRefused
from sampan.machinery.multiplex.upgrade import accept_websocket
from sampan.machinery.multiplex.websocket import TEXT, WebSocket

log = logging.getLogger(__name__)

STREAM_PROTOCOL = "v1.stream.sampan"
_GOING_AWAY, _POLICY_VIOLATION = 1001, 1008
LOGGED_OUT = 4401
"""The close code that tells the page that its session has ended."""
_INTERVAL_S = 0.1
"""The shortest time between two messages of a subscription."""
_SUBSCRIPTIONS = 32
_SPECIAL_SUBSCRIPTIONS = 6
"""How many special subscriptions all pages of a session may have together. Each of them follows the whole cluster."""
_MESSAGE_BYTES = 64 << 10
_MESSAGES, _MESSAGE_WINDOW_S = 300, 10.0
"""How many messages a page may send within the window."""
_SEND_S = 60.0
"""How long a page may take to read a message before the connection is closed."""
_HEARTBEAT_S = 30.0
"""The time between two pings. A page that sends nothing at all between them is gone."""
_SESSION_CHECK_S = 15.0
_decode = msgspec.json.Decoder(SubscribeMessage).decode

MakeSubscription = Callable[[SubscribeMessage, "StreamConnection"], Subscription]


class StreamConnection:
    """The stream of one page: reads subscribe messages, and sends the messages of the subscriptions. `is_expired` and
    `touch` refer to the session; `make_special` creates, by kind, subscriptions that are not lists of objects."""

    def __init__(
        self,
        *,
        api: UserApi,
        session: LoginSession,
        is_expired: Callable[[], bool],
        touch: Callable[[], None],
        make_special: dict[str, MakeSubscription],
        budget: ChangeBudget,
    ) -> None:
        self.api, self._session, self._budget = api, session, budget
        self._is_expired, self._touch, self._make_special = is_expired, touch, make_special
        self._socket: WebSocket | None = None
        self._subscriptions: dict[int, tuple[Subscription, asyncio.Task[None]]] = {}
        self._due: dict[int, float] = {}
        """The time at which the pending changes of a subscription may be sent, by the identifier of the
        subscription."""
        self._sent_at: dict[int, float] = {}
        self._wake = asyncio.Event()
        self._send_turn = asyncio.Lock()

    async def serve(self, request: HttpRequest) -> StreamResponse | None:
        offered = websocket_protocols(request)
        protocol = STREAM_PROTOCOL if STREAM_PROTOCOL in offered else next(iter(offered), "")
        try:
            self._socket = socket = accept_websocket(request, protocol, max_message_bytes=_MESSAGE_BYTES)
        except UpgradeRefused as refused:
            raise errors.bad_request(refused.text) from None
        self._session.disconnects.add(self.disconnect)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._read(group)),
                    group.create_task(self._write()),
                    group.create_task(self._end_with_session()),
                    group.create_task(self._ping(socket)),
                ]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in (*tasks, *(task for _, task in self._subscriptions.values())):
                    task.cancel()
        except* (ConnectionError, TimeoutError):
            log.debug("closed the stream of a dashboard page: the page does not read it")
            request.abort()
        finally:
            self._session.disconnects.discard(self.disconnect)
            with suppress(ConnectionError):
                await socket.close()
        return None

    async def disconnect(self) -> None:
        """Close the connection because the session has ended or the server stops."""
        if self._socket is not None:
            code, reason = (LOGGED_OUT, b"logged out") if self._session.is_logged_out else (_GOING_AWAY, b"stopping")
            with suppress(ConnectionError):
                await self._socket.close(code, reason)

    async def send(self, message: bytes) -> None:
        """Send a message, and return when the connection has taken it."""
        assert self._socket is not None
        async with self._send_turn, asyncio.timeout(_SEND_S):
            await self._socket.send(message, TEXT)

    def mark(self, identifier: int) -> None:
        """Schedule the pending changes of a subscription to be sent."""
        if identifier not in self._due:
            self._due[identifier] = self._sent_at.get(identifier, 0.0) + _INTERVAL_S
            self._wake.set()

    # -- messages of the page ----------------------------------------------------------------------------------------

    async def _read(self, group: asyncio.TaskGroup) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        window_start, count = loop.time(), 0
        while (message := await self._socket.receive()) is not None:
            if message.opcode != TEXT:
                return
            if loop.time() - window_start > _MESSAGE_WINDOW_S:
                window_start, count = loop.time(), 0
            count += 1
            if count > _MESSAGES:
                await self._socket.close(_POLICY_VIOLATION, b"too many messages")
                return
            await self._handle(group, message.data)

    async def _handle(self, group: asyncio.TaskGroup, text: bytes) -> None:
        try:
            message = _decode(text)
        except JSON_ERRORS as error:
            await self.send(error_message(0, errors.bad_request(f"the message cannot be read: {error}")))
            return
        if message.op != "ping":
            self._touch()
        try:
            if message.op == "subscribe":
                self._subscribe(group, message)
            elif message.op == "unsubscribe":
                self._unsubscribe(message.id)
            elif message.op not in ("active", "ping"):
                raise errors.bad_request(f"there is no operation {message.op[:64]!r}")
        except errors.ApiError as error:
            await self.send(error_message(message.id, error))

    def _subscribe(self, group: asyncio.TaskGroup, message: SubscribeMessage) -> None:
        self._unsubscribe(message.id)
        if len(self._subscriptions) >= _SUBSCRIPTIONS:
            raise errors.too_many_requests(
                f"a page may have at most {_SUBSCRIPTIONS} subscriptions at a time", retry_after_s=1
            )
        if message.kind:
            make = self._make_special.get(message.kind)
            if make is None:
                raise errors.bad_request(f"there is no subscription of kind {message.kind[:64]!r}")
            if self._session.special_subscriptions >= _SPECIAL_SUBSCRIPTIONS:
                raise errors.too_many_requests("too many pages of the session show the overview", retry_after_s=5)
            subscription = make(message, self)
        else:
            subscription = ListSubscription(
                message=message,
                api=self.api,
                send=self.send,
                mark=lambda: self.mark(message.id),
                budget=self._budget,
                list_turn=self._session.list_turn,
            )
        task = group.create_task(self._run(message.id, subscription))
        if message.kind:
            self._session.special_subscriptions += 1
            task.add_done_callback(self._end_special)
        self._subscriptions[message.id] = (subscription, task)

    def _end_special(self, task: asyncio.Task[None]) -> None:
        self._session.special_subscriptions -= 1

    async def _run(self, identifier: int, subscription: Subscription) -> None:
        try:
            await subscription.run()
        except (ConnectionError, TimeoutError):
            raise
        except errors.ApiError as error:
            await self.send(error_message(identifier, error))
        except Exception:
            log.exception("dashboard: %s failed", type(subscription).__name__)
            failure = errors.internal_error("the subscription failed unexpectedly")
            await self.send(error_message(identifier, failure))

    def _unsubscribe(self, identifier: int) -> None:
        entry = self._subscriptions.pop(identifier, None)
        if entry is not None:
            entry[1].cancel()
        self._due.pop(identifier, None)
        self._sent_at.pop(identifier, None)

    # -- messages of the subscriptions -------------------------------------------------------------------------------

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._due:
                self._wake.clear()
                await self._wake.wait()
            identifier, due_at = min(self._due.items(), key=lambda entry: entry[1])
            if (wait_s := due_at - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            if self._due.pop(identifier, None) is None:
                continue
            entry = self._subscriptions.get(identifier)
            message = entry[0].take() if entry is not None else None
            if message is not None:
                self._sent_at[identifier] = loop.time()  # changes that arrive during the send wait for the next message
                await self.send(message)

    async def _ping(self, socket: WebSocket) -> None:
        """Raise ConnectionError when the page is gone."""
        while True:
            received_count = socket.received_count
            await socket.ping()
            await asyncio.sleep(_HEARTBEAT_S)
            if socket.received_count == received_count:
                raise ConnectionResetError("the page does not answer")

    async def _end_with_session(self) -> None:
        while True:
            if self._is_expired():
                break
            await asyncio.sleep(_SESSION_CHECK_S)
        await self.disconnect()
