"""What happens when a part of a process fails with an unexpected exception.

A component that is a process of its own exits, and whoever started it restarts it. In a process with several components
a `Supervisor` restarts the one that has failed, and reports it meanwhile. `NoSupervision` is for components that are
processes of their own, and for clusters of tests, in which a failure must not go unnoticed: the exception ends
everything.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sampan.host.backoff import Backoff
from sampan.host.clock import Clock

log = logging.getLogger(__name__)

RESTART_BACKOFF = Backoff(1.0, 60.0)
_PROBATION_S = 10.0
"""For this time after a restart a part still counts as failed: most of those that fail again do so at once."""
_RECOVERY_S = 300.0
"""A part that has run for this time starts with the shortest backoff again."""
_MAX_REASON_LENGTH = 300

Work = Callable[[], Awaitable[None]]
"""Runs a part until it is cancelled. It is called again after each failure, and begins from the current state."""


class Supervision(Protocol):
    async def run(self, part: str, work: Work) -> None:
        """Run a part of the process until it returns or is cancelled."""

    def narrow_to(self, component: str) -> Supervision:
        """Return the supervision of the parts of a component."""


class NoSupervision:
    """Lets exceptions pass to the owner of the task."""

    async def run(self, part: str, work: Work) -> None:
        await work()

    def narrow_to(self, component: str) -> Supervision:
        return self


@dataclass(slots=True)
class _Record:
    """The state of a supervised part."""

    reason: str = ""
    """Why the part failed the last time; empty if it never did."""
    started: float = 0.0
    is_running: bool = True
    failures: int = 0
    """The failures in a row."""


class Supervisor:
    """Restarts failed parts after a backoff that grows with the failures in a row."""

    def __init__(self, *, clock: Clock, backoff: Backoff = RESTART_BACKOFF) -> None:
        self._clock, self._backoff = clock, backoff
        self._records: dict[str, dict[str, _Record]] = {}
        """The parts by component; the part with an empty name is the component itself."""

    async def run(self, part: str, work: Work) -> None:
        await self.run_part(part, "", work)

    def narrow_to(self, component: str) -> Supervision:
        return _ComponentSupervision(self, component)

    async def run_part(self, component: str, part: str, work: Work) -> None:
        parts, record = self._records.setdefault(component, {}), _Record(started=self._clock.monotonic())
        parts[part] = record
        try:
            while True:
                try:
                    return await work()
                except Exception as error:
                    await self._pause(f"{component}: {part}" if part else component, record, error)
        finally:
            if parts.get(part) is record:
                del parts[part]
            if not parts:
                self._records.pop(component, None)

    async def _pause(self, name: str, record: _Record, error: Exception) -> None:
        if self._clock.monotonic() - record.started >= _RECOVERY_S:
            record.failures = 0
        pause_s = self._backoff.delay_after(record.failures)
        record.failures += 1
        record.is_running, record.reason = False, describe_failure(error)
        log.error("%s failed, restarting in %g s: %s", name, pause_s, record.reason, exc_info=error)
        await self._clock.sleep(pause_s)
        record.is_running, record.started = True, self._clock.monotonic()

    def failures(self) -> Mapping[str, str]:
        """Return the reason why each component is failed, or an empty string if it is not."""
        now = self._clock.monotonic()
        return {component: "; ".join(_failed_parts(parts, now)) for component, parts in self._records.items()}


class _ComponentSupervision:
    def __init__(self, supervisor: Supervisor, component: str, prefix: str = "") -> None:
        self._supervisor, self._component, self._prefix = supervisor, component, prefix

    async def run(self, part: str, work: Work) -> None:
        await self._supervisor.run_part(self._component, f"{self._prefix}{part}", work)

    def narrow_to(self, component: str) -> Supervision:
        return _ComponentSupervision(self._supervisor, self._component, f"{self._prefix}{component}: ")


def _failed_parts(parts: Mapping[str, _Record], now: float) -> Iterator[str]:
    for part, record in parts.items():
        if record.reason and not (record.is_running and now - record.started >= _PROBATION_S):
            yield f"{part}: {record.reason}" if part else record.reason


def describe_failure(error: BaseException) -> str:
    """Return the type and the message of an exception, of the first if it is a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text if len(text) <= _MAX_REASON_LENGTH else f"{text[:_MAX_REASON_LENGTH]}..."
