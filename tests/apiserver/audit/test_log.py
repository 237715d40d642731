"""The audit log: bounds, rotation, shutdown, and files that cannot be written."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from sampan.apiserver.audit.event import AuditBody
from sampan.apiserver.audit.log import AuditLog, AuditLogFile
from sampan.host.clock import VirtualClock
from sampan.machinery.telemetry.metrics import Metrics
from tests.apiserver.audit.audit_entries import entry


async def write_and_stop(log: AuditLog, count: int) -> None:
    """Put `count` entries and stop the log at once."""
    running = asyncio.create_task(log.run())
    await asyncio.sleep(0)
    for number in range(count):
        log.put(entry(str(number)))
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def test_queued_events_are_written_on_shutdown(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(file=AuditLogFile(str(path), clock=VirtualClock()), metrics=Metrics())
    asyncio.run(write_and_stop(log, 1700))
    assert [json.loads(line)["auditID"] for line in path.read_text().splitlines()] == [str(n) for n in range(1700)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_events_beyond_the_entry_limit_are_dropped_and_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    path = tmp_path / "audit.log"
    file = AuditLogFile(str(path), clock=VirtualClock())
    asyncio.run(write_and_stop(AuditLog(file=file, metrics=metrics, max_entries=5), 8))
    assert len(path.read_text().splitlines()) == 5
    assert 'apiserver_audit_error_total{plugin="log"} 3' in metrics.text()


def test_events_beyond_the_byte_limit_are_dropped_and_counted() -> None:
    metrics = Metrics()
    log = AuditLog(file=AuditLogFile("/nowhere/audit.log", clock=VirtualClock()), metrics=metrics)
    for _ in range(10):
        log.put(entry(request=AuditBody(b"x" * (10 << 20))))
    assert 'apiserver_audit_error_total{plugin="log"} 4' in metrics.text()


def test_events_for_an_unwritable_file_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    log = AuditLog(file=AuditLogFile("/proc/nowhere/audit.log", clock=VirtualClock()), metrics=metrics)
    asyncio.run(write_and_stop(log, 3))
    assert 'apiserver_audit_error_total{plugin="log"} 3' in metrics.text()
    assert "dropped 3 events" in caplog.text


def test_a_full_log_file_is_rotated(tmp_path: Path) -> None:
    clock = VirtualClock()
    file = AuditLogFile(str(tmp_path / "audit.log"), clock=clock, max_bytes=100, max_backups=2)
    for number in range(10):
        file.write([b"%02d" % number + b"x" * 57 + b"\n"])
    kept = sorted(tmp_path.iterdir())
    assert [path.read_bytes()[:2] for path in kept] == [b"07", b"08", b"09"]
    assert kept[-1].name == "audit.log"
    assert kept[0].name.startswith("audit-2026-01-01T00-00-00.")


def test_log_file_is_rotated_within_a_batch(tmp_path: Path) -> None:
    file = AuditLogFile(str(tmp_path / "audit.log"), clock=VirtualClock(), max_bytes=100)
    file.write([b"%02d" % number + b"x" * 37 + b"\n" for number in range(5)])
    assert sorted(len(path.read_bytes()) for path in tmp_path.iterdir()) == [40, 80, 80]


def test_log_files_older_than_the_maximum_age_are_removed(tmp_path: Path) -> None:
    clock = VirtualClock()
    file = AuditLogFile(str(tmp_path / "audit.log"), clock=clock, max_bytes=10, max_age_days=3)
    for _ in range(6):
        file.write([b"0123456789\n"])
        asyncio.run(clock.advance(86_400))
    days = [path.name.removeprefix("audit-").partition("T")[0] for path in sorted(tmp_path.glob("audit-*.log"))]
    assert days == ["2026-01-03", "2026-01-04", "2026-01-05", "2026-01-06"]
