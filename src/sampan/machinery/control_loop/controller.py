"""The contract of a controller, and the runner that provides what all controllers need.

A controller declares which objects map to which of its keys, and reconciles one key at a time. The runner owns the
queue, the workers, the backoff, the wait for cache sync, and the metrics. The Kubernetes counterpart is the worker loop
that each controller in `pkg/controller` has.

The metrics of controllers and their work queues have the names that kube-controller-manager uses."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sampan.api.resources.resource import Resource
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client.options import EVERYTHING, Selection
from sampan.machinery.client.transport import ConnectionFailed
from sampan.machinery.control_loop.workqueue import QUEUE_BUCKETS, WorkQueue
from sampan.machinery.decisions import collect_decisions
from sampan.machinery.informer import Informer, InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.machinery.telemetry.metrics import Histogram, Labels, Metrics

log = logging.getLogger(__name__)

_MAX_EXPECTED_FAILURES = 12
"""After this many failures of a key in a row (20 s with the default backoff) even RetryLater is logged as a
warning."""
_RECENT = 8
_NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause in the API server's response when it rejects a create because the namespace is being deleted."""


class RetryLater(Exception):
    """Raised by `reconcile` when a key must be retried for an expected reason: the backoff applies, but no warning is
    logged."""


Keys = Callable[[Any], Iterable[Hashable]]
"""Maps an object to the keys that it concerns."""


def no_keys(obj: Any) -> Iterable[Hashable]:
    """Return no keys, for a resource that the controller reads but that does not trigger reconciles."""
    return ()


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch whose add, update and delete events enqueue keys. An update enqueues the keys of both the old and the new
    object."""

    resource: Resource
    keys: Keys = no_keys
    selection: Selection = EVERYTHING
    metadata_only: bool = field(default=False, kw_only=True)


class Controller(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> Sequence[Watch]:
        """Every resource that `reconcile` reads from a cache; the first reconcile waits until all of them are
        synced."""

    async def reconcile(self, key: Any) -> float | None:
        """Reconcile the key from the current state alone, and write nothing if that state is as desired.

        Return after how many seconds to reconcile again, or None to wait for the next change. An exception is logged,
        and the key is retried after its backoff.
        """


@runtime_checkable
class PeriodicController(Protocol):
    """A controller with keys that are reconciled at intervals, regardless of changes."""

    @property
    def initial_keys(self) -> Sequence[Hashable]:
        """Keys that are enqueued once the caches are synced; after that `reconcile` returns when to run again."""


@runtime_checkable
class KeySourceController(Protocol):
    """A controller with sources of keys other than its watches."""

    def feed(self, add: Callable[[Hashable], None]) -> None:
        """Receive the function `add`, which enqueues a key. The runner calls this method before the caches sync; the
        controller may call `add` at any time from then on."""


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    workers: int = 5
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(slots=True)
class RunnerStats:
    reconciles: int = 0
    errors: int = 0
    conflicts: int = 0
    """The errors that were conflicts with another writer; they are included in `errors`."""
    work: Histogram = field(default_factory=lambda: Histogram(QUEUE_BUCKETS))
    """The times spent in `reconcile`, measured by the event loop's clock."""


class ReconcileRecord(NamedTuple):
    """A reconcile that has ended."""

    time: float
    """When the reconcile ended, in seconds since the epoch."""
    key: Hashable
    took_s: float
    error: str


class ControllerRunner:
    def __init__(
        self,
        *,
        controller: Controller,
        informers: InformerFactory,
        clock: Clock,
        activity: Activity | None = None,
        config: RunnerConfig | None = None,
        recorder: FlightRecorder | None = None,
    ) -> None:
        self.controller, self._informers, self._recorder = controller, informers, recorder
        self._config = config or RunnerConfig()
        self._clock, self._activity = clock, activity
        self.queue = self._make_queue()
        self.stats = RunnerStats()
        self._now = clock.now
        self.recent: deque[ReconcileRecord] = deque(maxlen=_RECENT)
        """The most recent reconciles, oldest first."""

    def _make_queue(self) -> WorkQueue[Any]:
        return WorkQueue(clock=self._clock, backoff=self._config.backoff, activity=self._activity)

    async def run(self) -> None:
        """Run the controller until cancelled. After an exception it may be called again, and begins with all keys."""
        if self.queue.is_shut_down:
            self.queue = self._make_queue()
        if isinstance(self.controller, KeySourceController):
            self.controller.feed(self.queue.add)
        informers = [self._informer(watch) for watch in self.controller.watches]
        stops = [
            informer.subscribe(self._handler(watch.keys))
            for watch, informer in zip(self.controller.watches, informers, strict=True)
            if watch.keys is not no_keys
        ]
        try:
            for informer in informers:
                await informer.synced.wait()
            if isinstance(self.controller, PeriodicController):
                for key in self.controller.initial_keys:
                    self.queue.add(key)
            await self.queue.serve(self._reconcile, self._config.workers)
        finally:
            for stop in stops:
                stop()
            self.queue.shut_down()

    def _informer(self, watch: Watch) -> Informer[Any]:
        return self._informers.informer(watch.resource, watch.selection, metadata_only=watch.metadata_only)

    def _handler(self, keys: Keys) -> Callable[[Any | None, Any | None], None]:
        add = self.queue.add

        def handle(old: Any | None, new: Any | None) -> None:
            affected = list(keys(new)) if new is not None else []
            if old is not None:
                affected += keys(old)
            for key in dict.fromkeys(affected):
                add(key)

        return handle

    async def _reconcile(self, key: Any) -> None:
        loop, stats = asyncio.get_running_loop(), self.stats
        began, failure = loop.time(), ""
        try:
            again_s = await self._reconcile_and_log(key)
        except Exception as error:
            failure = str(error) or type(error).__name__
            self._handle_failure(key, error)
        else:
            self.queue.forget(key)
            if again_s is not None:
                self.queue.add_after(key, again_s, follows_wall_clock=True)
        finally:
            stats.reconciles += 1
            took_s = loop.time() - began
            stats.work.observe(took_s)
            self.recent.append(ReconcileRecord(self._now(), key, took_s, failure))

    async def _reconcile_and_log(self, key: Any) -> float | None:
        """Reconcile the key; at debug level, log what the controller decided and wrote."""
        if not log.isEnabledFor(logging.DEBUG):
            return await self.controller.reconcile(key)
        with collect_decisions() as decisions:
            try:
                return await self.controller.reconcile(key)
            finally:
                if text := decisions.text:
                    log.debug("%s: %s: %s", self.controller.name, key, text)

    def _handle_failure(self, key: Any, error: Exception) -> None:
        self.stats.errors += 1
        pause_s = self.queue.retry(key)
        name = self.controller.name
        if self._recorder is not None:
            self._recorder.note(name, "reconcile", str(key), outcome=f"{error or type(error).__name__}")
        if isinstance(error, errors.Conflict):
            self.stats.conflicts += 1
        if isinstance(error, errors.ApiError | ConnectionFailed | RetryLater):
            level = logging.DEBUG if self._is_expected(key, error) else logging.WARNING
            log.log(level, "%s: cannot sync %s: %s; retrying in %g s", name, key, error, pause_s)
        else:
            log.error("%s: sync of %s failed; retrying in %g s", name, key, pause_s, exc_info=error)

    def _is_expected(self, key: Any, error: Exception) -> bool:
        """Whether the error is part of normal operation: a conflict with another writer or a terminating namespace. As
        long as the key has not failed too often in a row, so are RetryLater and an object that was deleted after it was
        read from the cache."""
        if isinstance(error, RetryLater | errors.NotFound):
            return self.queue.failures(key) <= _MAX_EXPECTED_FAILURES
        if not isinstance(error, errors.ApiError):
            return False
        return isinstance(error, errors.Conflict) or error.has_cause(_NAMESPACE_TERMINATING)


def min_delay(*delays_s: float | None) -> float | None:
    """Return the shortest of the delays that several parts of a reconciliation ask for, None if none does."""
    return min((delay for delay in delays_s if delay is not None), default=None)


_VALUES: Sequence[tuple[str, str, str, Callable[[ControllerRunner], float]]] = (
    ("workqueue_depth", "gauge", "Keys that wait for a worker.", lambda runner: len(runner.queue)),
    ("workqueue_adds_total", "counter", "Keys that became ready.", lambda runner: runner.queue.stats.adds),
    ("workqueue_retries_total", "counter", "Keys that were put back.", lambda runner: runner.queue.stats.retries),
    (
        "workqueue_unfinished_work_seconds",
        "gauge",
        "Total time that workers have spent on keys that are not done yet.",
        lambda runner: sum(runner.queue.active_times()),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "gauge",
        "Longest time that a worker has spent on a key that is not done yet.",
        lambda runner: max(runner.queue.active_times(), default=0.0),
    ),
    ("sampan_reconcile_total", "counter", "Reconciled keys.", lambda runner: runner.stats.reconciles),
    ("sampan_reconcile_errors_total", "counter", "Reconciliations that failed.", lambda runner: runner.stats.errors),
)


def export_controllers(metrics: Metrics, runners: Callable[[], Sequence[ControllerRunner]]) -> None:
    """Export the metrics of the runners that `runners` returns at the time of each scrape."""

    def label_by_controller(value: Callable[[ControllerRunner], float]) -> Callable[[], Iterator[tuple[Labels, float]]]:
        return lambda: (((runner.controller.name,), value(runner)) for runner in runners())

    for name, kind, help, value in _VALUES:
        metrics.function(name, help, label_by_controller(value), ("name",), kind)
    metrics.distributions(
        "workqueue_queue_duration_seconds",
        "Time that keys wait in the work queue.",
        lambda: (((runner.controller.name,), runner.queue.stats.waits) for runner in runners()),
        ("name",),
    )
    metrics.distributions(
        "workqueue_work_duration_seconds",
        "Time that workers spend on keys.",
        lambda: (((runner.controller.name,), runner.stats.work) for runner in runners()),
        ("name",),
    )
