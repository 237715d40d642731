"""The audit log: a file to which events are written in the background."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sampan.api import limits
from sampan.apiserver.audit.buffer import MAX_ENTRIES, AuditBuffer
from sampan.apiserver.audit.event import AuditEntry, line
from sampan.host.clock import Clock
from sampan.machinery.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

_BATCH = 500
_DAY_S = 86_400


class AuditLogFile:
    """A log file that is rotated when it has grown too large; `-` is the standard output."""

    def __init__(
        self, path: str, *, clock: Clock, max_bytes: int = 100 << 20, max_backups: int = 0, max_age_days: int = 0
    ) -> None:
        self._path = None if path == "-" else Path(path)
        self._clock = clock
        self._last_aside = 0.0
        """The time in the name of the last rotated file. Later names must contain a later time, so that they sort in
        order."""
        self._max_bytes, self._max_backups, self._max_age_days = max_bytes, max_backups, max_age_days

    def check(self) -> None:
        """Raise OSError if the file cannot be written."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self._path, b"")

    def write(self, lines: Sequence[bytes]) -> None:
        if self._path is None:
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()
            return
        size = self._path.stat().st_size if self._path.exists() else 0
        fitting: list[bytes] = []
        for entry in lines:
            if size and size + len(entry) > self._max_bytes:
                self._append(self._path, b"".join(fitting))
                self._put_aside(self._path)
                fitting, size = [], 0
            fitting.append(entry)
            size += len(entry)
        self._append(self._path, b"".join(fitting))

    @staticmethod
    def _append(path: Path, data: bytes) -> None:
        def private(name: str, flags: int) -> int:
            import os

            return os.open(name, flags, 0o600)

        with open(path, "ab", opener=private) as file:
            file.write(data)

    def _put_aside(self, path: Path) -> None:
        now = max(self._clock.now(), self._last_aside + 0.001)
        while (aside := path.with_name(f"{path.stem}-{_stamp(now)}{path.suffix}")).exists():
            now += 0.001
        path.rename(aside)
        self._last_aside = now
        backups = sorted(path.parent.glob(f"{path.stem}-????-??-??T??-??-??.???{path.suffix}"))
        oldest = f"{path.stem}-{_stamp(now - self._max_age_days * _DAY_S)}" if self._max_age_days else ""
        spare = backups[: -self._max_backups] if self._max_backups else []
        for backup in backups:
            if backup in spare or backup.name < oldest:
                backup.unlink(missing_ok=True)


class AuditLog:
    """Writes entries to a file in the background."""

    def __init__(self, *, file: AuditLogFile, metrics: Metrics, max_entries: int = MAX_ENTRIES) -> None:
        self._file = file
        self._buffer = AuditBuffer(
            plugin="log",
            metrics=metrics,
            max_entries=max_entries,
            batch_entries=_BATCH,
            batch_bytes=limits.AUDIT_LINE_BYTES,
        )

    def put(self, entry: AuditEntry) -> None:
        self._buffer.put(entry)

    async def run(self) -> None:
        """Write entries until cancelled, and then the remaining ones."""
        try:
            while True:
                await self._buffer.is_filled.wait()
                batch = self._buffer.take()
                writing = asyncio.ensure_future(asyncio.to_thread(self._write, batch))
                try:
                    await asyncio.shield(writing)
                except asyncio.CancelledError:
                    await writing
                    raise
        finally:
            while batch := self._buffer.take():
                self._write(batch)

    def _write(self, batch: list[AuditEntry]) -> None:
        lines: list[bytes] = []
        size = 0
        for entry in batch:
            try:
                lines.append(line(entry))
                size += len(lines[-1])
            except (ValueError, TypeError) as error:
                self._buffer.count_lost(1)
                log.error("audit log: dropped event %s: %s", entry.event.auditID, error)
            if size >= limits.AUDIT_LINE_BYTES:
                self._append(lines)
                lines, size = [], 0
        self._append(lines)

    def _append(self, lines: list[bytes]) -> None:
        """Write some lines, few enough to use little memory."""
        try:
            self._file.write(lines)
        except OSError as error:
            self._buffer.count_lost(len(lines))
            log.error("audit log: dropped %d events that could not be written: %s", len(lines), error)


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
