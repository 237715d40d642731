"""Calls to etcd: a single attempt, or attempts until one succeeds.

The caller decides what may be retried: `call` retries after any transient error, and is for reads and idempotent
requests; `attempt` tries once, for writes, whose caller knows the effect of a retry.
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
"""Metadata that makes a member without a leader fail the request at once instead of letting it wait."""


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
        """Return the response of the first member that gives one.

        Raise `StorageError`, or `Fault` for errors that the caller translates (compacted, future revision).
        """
        last = Fault(Kind.NOT_DONE, "no time to try")
        attempts = self.attempts()
        while (timeout_s := await attempts.next()) is not None:
            try:
                return await self.attempt(method, request, timeout_s)
            except Fault as error:
                if not error.is_passing:
                    raise translated(error) from error
                last = error
        raise Unavailable(f"etcd: {last.text}") from last

    def attempts(self) -> Attempts:
        return Attempts(self.timeouts)

    async def attempt(self, method: Method, request: Any, timeout_s: float) -> Any:
        """Attempt the request once at one member; raise `Fault`."""
        return await self.ask(await self._endpoints.pick(), method, request, timeout_s)

    async def ask(self, endpoint: Endpoint, method: Method, request: Any, timeout_s: float) -> Any:
        try:
            return await endpoint.ask(method, request, timeout=timeout_s, metadata=REQUIRE_LEADER)
        except aio.AioRpcError as error:
            raise self.fault(endpoint, error) from error
        except aio.UsageError as error:
            raise Closed("the etcd backend was closed") from error

    def fault(self, endpoint: Endpoint, error: aio.AioRpcError) -> Fault:
        failure = Fault(classify(error.code(), error.details() or ""), f"{endpoint.url}: {reason(error)}")
        if failure.is_passing:
            endpoint.shun()
        return failure


def reason(error: aio.AioRpcError) -> str:
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "no answer in time"
    text: str = error.details() or error.code().name
    return text


def translated(fault: Fault) -> StorageError | Fault:
    """Return the storage error for a permanent `Fault`.

    Those that need more context to translate (compacted, future revision, lease) are returned unchanged.
    """
    match fault.kind:
        case Kind.COMPACTED | Kind.FUTURE | Kind.LEASE_GONE:
            return fault
        case Kind.DENIED:
            return StorageError(f"etcd does not allow this: {fault.text}")
        case Kind.FULL:
            return Unavailable(f"etcd is full: {fault.text}")
        case _:
            return StorageError(f"etcd: {fault.text}")
