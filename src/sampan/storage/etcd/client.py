"""Calls to etcd: one attempt, or attempts until one answers.

What may be tried again is decided by the caller: `call` tries again whatever happened to the attempt before, and is for
reads and for what does no harm when done twice; `attempt` is one try, for writes, whose caller knows what a second one
would do.
"""

from typing import Any

import grpc  # type: ignore[import-untyped]
from grpc import aio

from sampan.storage.backend import Closed, StorageError, Unavailable
from sampan.storage.etcd.attempts import Attempts, Timeouts
from sampan.storage.etcd.endpoints import Endpoint, Endpoints
from sampan.storage.etcd.faults import Fault, Kind, classify
from sampan.storage.etcd.proto import Method, load

REQUIRE_LEADER = (("hasleader", "true"),)
"""A member that has lost its leader says so at once instead of letting the request wait."""


class Client:
    def __init__(self, *, endpoints: Endpoints, timeouts: Timeouts) -> None:
        self._endpoints, self.timeouts = endpoints, timeouts
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
        attempts = self.attempts()
        while (timeout_s := await attempts.next()) is not None:
            try:
                return await self.attempt(method, request, timeout_s)
            except Fault as fault:
                if not fault.is_passing:
                    raise translated(fault) from fault
                last = fault
        raise Unavailable(f"etcd: {last.text}") from last

    def attempts(self) -> Attempts:
        return Attempts(self.timeouts)

    async def attempt(self, method: Method, request: Any, timeout_s: float) -> Any:
        """One try at one member; raises `Fault`."""
        return await self.ask(await self._endpoints.pick(), method, request, timeout_s)

    async def ask(self, endpoint: Endpoint, method: Method, request: Any, timeout_s: float) -> Any:
        try:
            return await endpoint.ask(method, request, timeout=timeout_s, metadata=REQUIRE_LEADER)
        except aio.AioRpcError as error:
            raise self.fault(endpoint, error) from error
        except aio.UsageError as error:
            raise Closed("the etcd backend was closed") from error

    def fault(self, endpoint: Endpoint, error: aio.AioRpcError) -> Fault:
        fault = Fault(classify(error.code(), error.details() or ""), f"{endpoint.url}: {reason(error)}")
        if fault.is_passing:
            endpoint.shun()
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
