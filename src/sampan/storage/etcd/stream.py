"""The gRPC stream that carries all watches, kept open across failures.

After a failure each subscription resumes at the revision that it had reached, at any connected member; events that it
has seen already are dropped. A revision is delivered completely or not at all (fragmented responses are reassembled).
"""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from grpc import aio  # type: ignore[import-untyped]

from sampan.storage.backend import Compacted, StorageError, StoreEvent
from sampan.storage.etcd import wire
from sampan.storage.etcd.client import REQUIRE_LEADER, EtcdClient, sends_progress_in_order
from sampan.storage.etcd.endpoints import EtcdEndpoint, EtcdEndpoints
from sampan.storage.etcd.proto import load

_log = logging.getLogger(__name__)
_pb = load()
_WATCH = _pb.method("Watch", "Watch")
_ALL_WATCHES = -1
_PAUSE_S = 0.25
"""The delay between two attempts to open the stream if the first received nothing, in seconds."""


class StreamSubscriber(Protocol):
    @property
    def position(self) -> int:
        """The revision up to which the subscriber has everything; nothing at or before it is delivered again."""

    wants_own_keys_only: bool
    """Whether the watch may be restricted to the prefix, on servers with reliable progress notifications.

    Otherwise every revision of the store is received, and a missing one is detected.
    """

    def on_revisions(self, events: Sequence[StoreEvent], position: int) -> None:
        """Receive all events under the prefix up to `position`, which becomes the subscriber's position."""

    def on_lost(self, error: StorageError) -> None:
        """Receive the end of the subscription: events after `position` are not available."""


class WatchStream:
    def __init__(self, *, client: EtcdClient, endpoints: EtcdEndpoints, keys: wire.KeyCodec) -> None:
        self._client, self._endpoints, self._keys = client, endpoints, keys
        self._ids = itertools.count(1)
        self._subscribers: dict[int, StreamSubscriber] = {}
        self._current: set[int] = set()
        """Subscriptions that start at the store's current revision and that no server has accepted yet."""
        self._connection: _StreamConnection | None = None
        self._established = asyncio.Event()

    async def wait_until_established(self) -> None:
        """Return once a server has accepted the first subscription."""
        await self._established.wait()

    def subscribe(self, subscriber: StreamSubscriber, *, is_current: bool = False) -> int:
        number = next(self._ids)
        self._subscribers[number] = subscriber
        if is_current:
            self._current.add(number)
        if self._connection:
            self._connection.create(number, subscriber)
        return number

    def unsubscribe(self, number: int) -> None:
        if self._subscribers.pop(number, None) and self._connection:
            self._connection.cancel(number)

    def request_progress(self) -> None:
        if self._connection:
            self._connection.request_progress()

    async def run(self) -> None:
        while True:
            endpoint = await self._endpoints.pick()
            if not await self._run_connection(endpoint):
                await asyncio.sleep(_PAUSE_S)

    async def _run_connection(self, endpoint: EtcdEndpoint) -> bool:
        """Use the stream to one member until it fails; return whether it ever received anything."""
        narrow = self._keys.has_prefix and await sends_progress_in_order(self._client, endpoint)
        call = endpoint.stream(_WATCH, metadata=REQUIRE_LEADER)
        connection = self._connection = _StreamConnection(
            keys=self._keys, subscribers=self._subscribers, current=self._current, is_narrow=narrow
        )
        for number, subscriber in self._subscribers.items():
            connection.create(number, subscriber)
        try:
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(connection.send(call))
                await self._receive(endpoint, call, connection)
                sending.cancel()
        finally:
            self._connection = None
            call.cancel()
        return connection.has_heard

    async def _receive(self, endpoint: EtcdEndpoint, call: Any, connection: "_StreamConnection") -> None:
        """Receive until the stream ends.

        The first response must arrive within the attempt timeout; after that, silence is normal, and a dead connection
        is detected by keepalive.
        """
        try:
            async with asyncio.timeout(self._client.timeouts.attempt_s):
                response = await call.read()
            while response is not aio.EOF and connection.receive(response):
                self._established.set()
                response = await call.read()
        except TimeoutError:
            endpoint.shun()
        except aio.AioRpcError as error:
            _log.info("etcd watch stream failed, reconnecting: %s", self._client.error_of(endpoint, error).text)


class _StreamConnection:
    """One gRPC call of the stream, to one member, with the watches that were created on it."""

    def __init__(
        self, *, keys: wire.KeyCodec, subscribers: dict[int, StreamSubscriber], current: set[int], is_narrow: bool
    ) -> None:
        self._keys, self._subscribers, self._current, self._is_narrow = keys, subscribers, current, is_narrow
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._fragments: dict[int, list[Any]] = {}
        self.has_heard = False

    def _is_narrowed(self, subscriber: StreamSubscriber) -> bool:
        return self._is_narrow and subscriber.wants_own_keys_only

    def create(self, number: int, subscriber: StreamSubscriber) -> None:
        """Create the etcd watch of a subscription.

        It starts at the revision already seen, not after it: older versions of etcd lose a deletion at exactly the
        revision of a compaction, whereas a watch that starts one revision earlier is cancelled as compacted (etcd
        issues 18089, 19179). Only a subscription that starts at the store's current revision starts after it, because
        etcd then need not read its history, which it would do up to 100 ms later.
        """
        start = subscriber.position + 1 if number in self._current else max(subscriber.position, 1)
        key, end = self._keys.bounds("") if self._is_narrowed(subscriber) else wire.ALL_KEYS
        request = _pb.WatchCreateRequest(key=key, range_end=end, start_revision=start, watch_id=number, fragment=True)
        request.progress_notify = self._is_narrowed(subscriber)
        self._requests.put_nowait(_pb.WatchRequest(create_request=request))

    def cancel(self, number: int) -> None:
        self._fragments.pop(number, None)
        self._requests.put_nowait(_pb.WatchRequest(cancel_request=_pb.WatchCancelRequest(watch_id=number)))

    def request_progress(self) -> None:
        if self._is_narrow:
            self._requests.put_nowait(_pb.WatchRequest(progress_request=_pb.WatchProgressRequest()))

    async def send(self, call: Any) -> None:
        try:
            while True:
                await call.write(await self._requests.get())
        except (aio.AioRpcError, asyncio.InvalidStateError):
            return  # the receiving side reports the error

    def receive(self, response: Any) -> bool:
        """Dispatch the response; return False if the stream should be reopened."""
        self.has_heard = True
        number = response.watch_id
        if response.canceled:
            return self._on_canceled(response)
        if response.created:
            self._current.discard(number)
            return True
        if number == _ALL_WATCHES:
            self._on_progress(response.header.revision)
        elif response.fragment:
            self._fragments.setdefault(number, []).extend(response.events)
        elif subscriber := self._subscribers.get(number):
            events = response.events
            if number in self._fragments:
                events = [*self._fragments.pop(number), *events]
            if events:
                self._on_events(number, subscriber, events)
            elif self._is_narrowed(subscriber):
                subscriber.on_revisions((), max(subscriber.position, response.header.revision))
        return True

    def _on_progress(self, revision: int) -> None:
        """Process a progress notification for the whole stream.

        Only the watch that every connection starts with is certain to have been active when it was sent, and only that
        watch is restricted to the prefix.
        """
        for subscriber in list(self._subscribers.values()):
            if self._is_narrowed(subscriber) and revision > subscriber.position:
                subscriber.on_revisions((), revision)

    def _on_events(self, number: int, subscriber: StreamSubscriber, raw: Sequence[Any]) -> None:
        before = position = subscriber.position
        is_complete = not self._is_narrowed(subscriber)
        events: list[StoreEvent] = []
        for event in raw:
            kv = event.kv
            revision = kv.mod_revision
            if revision <= before:
                continue
            if is_complete and revision > position + 1:
                return self._drop_subscriber(number, Compacted(revision - 1, raw[-1].kv.mod_revision))
            position = revision
            if self._keys.owns(kv.key):
                events.append(self._keys.event(event))
        if position > before:
            subscriber.on_revisions(events, position)

    def _on_canceled(self, response: Any) -> bool:
        if response.compact_revision:
            current = max(response.header.revision, response.compact_revision)  # the header is usually empty here
            self._drop_subscriber(response.watch_id, Compacted(response.compact_revision, current))
        elif "permission denied" in response.cancel_reason:
            for number in list(self._subscribers):
                self._drop_subscriber(number, StorageError(f"etcd does not allow a watch: {response.cancel_reason}"))
        else:
            return response.watch_id not in self._subscribers
        return True

    def _drop_subscriber(self, number: int, error: StorageError) -> None:
        if subscriber := self._subscribers.pop(number, None):
            self.cancel(number)
            subscriber.on_lost(error)
