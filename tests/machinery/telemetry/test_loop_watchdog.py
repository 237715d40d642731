"""The watchdog reports what blocked the event loop, and distinguishes CPU use from waiting."""

import asyncio
import logging
import threading
import time
from types import FrameType

import pytest

from sampan.machinery.telemetry.loop_watchdog import STALL_S, LoopWatchdog
from sampan.machinery.telemetry.metrics import LoopLag, Metrics
from tests.eventually import eventually, wait_until

INTERVAL_S = 0.01


def compute(watchdog: LoopWatchdog) -> None:
    """Use more CPU time than a stall needs, and until the watchdog has taken a sample."""
    until = time.thread_time() + STALL_S + 2 * INTERVAL_S
    while time.thread_time() < until or watchdog._sample is None:
        pass


def describe(frame: FrameType) -> str:
    return str(frame.f_locals.get("request", ""))


def run_watchdog(*, stall: str) -> tuple[LoopWatchdog, str]:
    metrics = Metrics()
    watchdog = LoopWatchdog(metrics=metrics, interval_s=INTERVAL_S, describe=describe)

    async def serve(request: str) -> None:
        if stall == "cpu":
            compute(watchdog)
        elif stall == "wait":
            wait_until(lambda: watchdog._sample is not None)

    async def check() -> None:
        beats = 0

        def beat() -> None:
            nonlocal beats
            watchdog.beat()
            beats += 1

        lag = LoopLag(metrics=metrics, interval_s=INTERVAL_S, on_beat=beat)
        with watchdog.watching():
            beating = asyncio.create_task(lag.run())
            await eventually(lambda: beats)
            await serve("POST '/api/v1/pods' by 'mallory'")
            before = beats
            await eventually(lambda: beats > before)
            beating.cancel()

    asyncio.run(check())
    return watchdog, metrics.text()


def test_a_stall_is_reported_with_its_stack_and_request(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        watchdog, text = run_watchdog(stall="cpu")
    stall = max(watchdog.stalls, key=lambda stall: stall.cpu_s)
    assert stall.is_computing
    assert stall.request == "POST '/api/v1/pods' by 'mallory'"
    assert "test_loop_watchdog.py" in stall.stack
    assert "compute" in stall.stack
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "while serving POST" in warnings[0]
    assert 'sampan_loop_stalls_total{cause="cpu"} 1' in text
    assert watchdog.longest_s >= STALL_S


def test_blocking_wait_is_not_reported_as_cpu_stall(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        watchdog, text = run_watchdog(stall="wait")
    assert any(stall.wall_s >= STALL_S for stall in watchdog.stalls)
    assert not any(stall.is_computing for stall in watchdog.stalls)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert 'sampan_loop_stalls_total{cause="cpu"} 0' in text


def test_watchdog_thread_ends_with_its_block() -> None:
    others = set(threading.enumerate())
    run_watchdog(stall="")
    for thread in set(threading.enumerate()) - others:
        thread.join(timeout=60)
        assert not thread.is_alive()
