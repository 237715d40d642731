"""Calls to etcd: one attempt, or attempts until one answers.

What may be tried again is decided by the caller: `call` tries again whatever happened to the attempt before, and is for
reads and for what does no harm when done twice; `attempt` is one try, for writes, whose caller knows what a second one
would do.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import grpc  # type: ignore[import-untyped]
from grpc import aio
from msgspec import Struct

from sampan.storage.backend import Closed, StorageError, Unavailable
from sampan.storage.etcd.endpoints import Endpoint, Endpoints
from sampan.storage.etcd.faults import Fault, Kind, classify
from sampan.storage.etcd.proto import Method, load

REQUIRE_LEADER = (("hasleader", "true"),)
"""A member that has lost its leader says so at once instead of letting the request wait."""


class Timeouts(Struct, frozen=True, kw_only=True):
    """Transport time, in seconds of the event loop."""

    connect_s: float = 2.0
    attempt_s: float = 5.0
    """For one attempt at one member."""
    request_s: float = 15.0
    """For a request with all its attempts: a leader election fits in several times over."""


class Client:
    def __init__(self, *, endpoints: Endpoints, timeouts: Timeouts) -> None:
        self._endpoints, self._timeouts = endpoints, timeouts
        schema = load()
        self.range = schema.method("KV", "Range")
        self.txn = schema.method("KV", "Txn")
        self.compact = schema.method("KV", "Compact")
        self.grant = schema.method("Lease", "LeaseGrant")
        self.status = schema.method("Maintenance", "Status")

    async def call(self, method: Method, request: Any) -> Any:
        """The answer of the first member that gives one; raises `StorageError`, or `Fault` for what a caller translates
        (compacted, ahead)."""
        last = Fault(Kind.NOT_DONE, "no time to try")
        async for _ in self.attempts():
            try:
                return await self.attempt(method, request)
            except Fault as fault:
                if not fault.is_passing:
                    raise translated(fault) from fault
                last = fault
        raise Unavailable(f"etcd: {last.text}") from last

    async def attempts(self) -> AsyncIterator[int]:
        """Counts attempts while there is time for one, pausing longer and longer before all but the first two."""
        end = asyncio.get_running_loop().time() + self._timeouts.request_s
        number = 0
        while True:
            yield number
            pause_s = min(0.02 * 2**number, 0.5) * random.uniform(0.5, 1) if number else 0.0
            if asyncio.get_running_loop().time() + pause_s >= end:
                return
            await asyncio.sleep(pause_s)
            number += 1

    async def attempt(self, method: Method, request: Any) -> Any:
        """One try at one member; raises `Fault`."""
        endpoint = await self._endpoints.pick()
        return await self.ask(endpoint, method, request)

    async def ask(self, endpoint: Endpoint, method: Method, request: Any) -> Any:
        try:
            return await endpoint.unary(method)(request, timeout=self._timeouts.attempt_s, metadata=REQUIRE_LEADER)
        except aio.AioRpcError as error:
            raise self.fault(endpoint, error) from error
        except aio.UsageError as error:
            raise Closed("the etcd backend was closed") from error

    def fault(self, endpoint: Endpoint, error: aio.AioRpcError) -> Fault:
        fault = Fault(classify(error.code(), error.details() or ""), f"{endpoint.url}: {reason(error)}")
        if fault.is_passing:
            self._endpoints.shun(endpoint)
        return fault


def reason(error: aio.AioRpcError) -> str:
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "no answer in time"
    text: str = error.details() or error.code().name
    return text


def translated(fault: Fault) -> StorageError | Fault:
    """The storage error for a fault that no further attempt can mend; those that need more than the fault to be told
    (compacted, ahead, lease) stay as they are."""
    match fault.kind:
        case Kind.COMPACTED | Kind.FUTURE | Kind.LEASE_GONE:
            return fault
        case Kind.DENIED:
            return StorageError(f"etcd does not allow this: {fault.text}")
        case Kind.FULL:
            return Unavailable(f"etcd is full: {fault.text}")
        case _:
            return StorageError(f"etcd: {fault.text}")
