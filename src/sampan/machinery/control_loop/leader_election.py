"""Leader election with a Lease, as in client-go's `tools/leaderelection`: one of several candidates leads at a time.

A candidate acquires the lease if it has no holder, or if the holder has not renewed it for the duration of the lease.
The candidate measures this time with its own monotonic clock, from the moment at which it observed the last renewal:
the clocks of different machines are never compared. The leader renews the lease; if it fails to for `renew_s`, it stops
leading before another candidate may start.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from sampan.api.types.coordination_v1 import Lease, LeaseSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed

_RANDOM = random.Random()
"""The random number generator for the jitter of retries. It is not the shared one, because tests seed that."""

log = logging.getLogger(__name__)

_JITTER = 1.2


class LeadershipLost(Exception):
    """The lease could not be renewed in time; another candidate may be the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionConfig:
    name: str
    namespace: str = "kube-system"
    identity: str
    """The unique identity of this candidate."""
    lease_s: int = 15
    renew_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_s > self.renew_s > self.retry_s * _JITTER:
            raise ValueError("the lease duration must exceed the renew deadline, and that the retry period")


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The last observed state of the lease, and the monotonic time at which this candidate first observed it."""

    spec: LeaseSpec
    at: float


def claim(observed: ObservedLease | None, config: ElectionConfig, *, now: float, monotonic: float) -> LeaseSpec | None:
    """Return the spec to write in order to hold the lease, or None while another candidate holds it. `now` is for
    timestamps, `monotonic` for measuring the lease duration."""
    fresh = LeaseSpec(
        holderIdentity=config.identity,
        leaseDurationSeconds=config.lease_s,
        acquireTime=times.format_micro_time(now),
        renewTime=times.format_micro_time(now),
        leaseTransitions=0,
    )
    if observed is None:
        return fresh
    spec = observed.spec
    if spec.holderIdentity == config.identity:
        return msgspec.structs.replace(fresh, acquireTime=spec.acquireTime, leaseTransitions=spec.leaseTransitions)
    if spec.holderIdentity and observed.at + (spec.leaseDurationSeconds or 0) > monotonic:
        return None
    return msgspec.structs.replace(fresh, leaseTransitions=(spec.leaseTransitions or 0) + 1)


def build_released_spec(spec: LeaseSpec, now: float) -> LeaseSpec:
    """Return the spec that the leader writes when it stops, so that other candidates need not wait for expiry."""
    stamp = times.format_micro_time(now)
    return LeaseSpec(
        holderIdentity="",
        leaseDurationSeconds=1,
        acquireTime=stamp,
        renewTime=stamp,
        leaseTransitions=spec.leaseTransitions,
    )


class LeaderElector:
    def __init__(self, *, client: Client, clock: Clock, config: ElectionConfig) -> None:
        self._leases, self._clock, self._config = client.for_kind(Lease), clock, config
        self._lease: Lease | None = None
        self._observed: ObservedLease | None = None
        self.is_leader = False

    @property
    def leader(self) -> str:
        """The identity of the last observed leader; empty if there is none."""
        return (self._observed.spec.holderIdentity or "") if self._observed is not None else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` for as long as it is held.

        Return when `lead` returns. Raise LeadershipLost, with `lead` cancelled, when the lease is lost. In all other
        cases the lease is released.
        """
        while not await self._try_acquire_or_renew():
            await self._clock.sleep(self._config.retry_s * (1 + _RANDOM.random() * (_JITTER - 1)))
        log.info("%s became leader, holding lease %s", self._config.identity, self._config.name)
        self.is_leader = True
        try:
            await self._lead(lead)
        finally:
            if self.is_leader:
                await self._release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await lead()
            renewing.cancel()

        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew())
                group.create_task(run())
        except BaseExceptionGroup as failures:
            lost, others = failures.split(LeadershipLost)
            if lost is None or (others is not None and not isinstance(others, ExceptionGroup)):
                raise
            if others is not None:  # the work had to stop anyway, and often fails for the same reason as renewal
                log.debug("leader failed after lease %s was lost: %s", self._config.name, others.exceptions)
            raise LeadershipLost(f"{self._config.identity} lost lease {self._config.name}") from None

    async def _renew(self) -> None:
        """Renew the lease until it is lost, then raise LeadershipLost."""
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._config.retry_s)
            if await self._try_acquire_or_renew():
                renewed = self._clock.monotonic()
            elif self.leader not in ("", self._config.identity) or self._is_over(renewed):
                self.is_leader = False
                raise LeadershipLost(f"{self._config.identity} lost lease {self._config.name}")

    def _is_over(self, renewed: float) -> bool:
        return self._clock.monotonic() - renewed >= self._config.renew_s

    async def _try_acquire_or_renew(self) -> bool:
        """Acquire or renew the lease; return False if another candidate holds it or the server cannot be reached."""
        config = self._config
        try:
            async with asyncio.timeout(config.renew_s):
                await self._read_lease()
                desired = claim(self._observed, config, now=self._clock.now(), monotonic=self._clock.monotonic())
                if desired is None:
                    return False
                await self._write(desired)
        except (errors.ApiError, ConnectionFailed, TimeoutError) as failure:
            log.debug("cannot acquire or renew lease %s: %s", config.name, failure)
            return False
        return True

    async def _read_lease(self) -> None:
        try:
            self._lease = await self._leases.get(self._config.name, self._config.namespace)
        except errors.NotFound:
            self._lease = self._observed = None
            return
        self._observe(self._lease.spec)

    async def _write(self, spec: LeaseSpec) -> None:
        if self._lease is None:
            meta = ObjectMeta(name=self._config.name, namespace=self._config.namespace)
            self._lease = await self._leases.create(Lease(metadata=meta, spec=spec))
        else:
            self._lease = await self._leases.update(msgspec.structs.replace(self._lease, spec=spec))
        self._observe(self._lease.spec)

    def _observe(self, spec: LeaseSpec) -> None:
        if self._observed is None or self._observed.spec != spec:
            self._observed = ObservedLease(spec, self._clock.monotonic())

    async def _release(self) -> None:
        self.is_leader = False
        if self._lease is None:
            return
        try:
            await self._write(build_released_spec(self._lease.spec, self._clock.now()))
        except (errors.ApiError, ConnectionFailed) as failure:
            log.debug("cannot release lease %s: %s", self._config.name, failure)
