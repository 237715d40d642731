import asyncio
import time

import pytest

from sampan.host.clock import WALL_CHECK_S, Clock, RealClock, VirtualClock, wall_offset


def test_real_clock_is_the_wall_clock() -> None:
    clock: Clock = RealClock()
    assert abs(clock.now() - time.time()) < 1
    asyncio.run(clock.sleep(-1))
    asyncio.run(clock.sleep_until(clock.now() + 0.001))


def test_sleepers_wake_in_order_at_their_own_virtual_time() -> None:
    async def scenario() -> list[tuple[str, float]]:
        clock, woke = VirtualClock(start=1000), []

        async def sleeper(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woke.append((name, clock.now()))

        async with asyncio.TaskGroup() as tasks:
            for name, seconds in [("late", 30), ("soon", 1), ("soon too", 1), ("now", 0)]:
                tasks.create_task(sleeper(name, seconds))
            await clock.advance(29)
            assert [name for name, _ in woke] == ["now", "soon", "soon too"]
            assert clock.now() == 1029
            assert clock.next_wake() == 1030
            await clock.advance(1)
        return woke

    assert asyncio.run(scenario()) == [("now", 1000), ("soon", 1001), ("soon too", 1001), ("late", 1030)]


def test_a_periodic_task_runs_once_per_period() -> None:
    async def scenario() -> list[float]:
        clock, ticks = VirtualClock(start=0), []

        async def ticker() -> None:
            while True:
                await clock.sleep(60)
                ticks.append(clock.now())

        task = asyncio.create_task(ticker())
        await clock.advance(24 * 3600)
        task.cancel()
        return ticks

    ticks = asyncio.run(scenario())
    assert len(ticks) == 24 * 60
    assert ticks[:2] == [60, 120]


def test_advance_waits_for_the_work_of_idle_hooks() -> None:
    """Work in a thread takes an unknown number of loop turns, so the clock waits for the idle hook."""

    async def scenario() -> tuple[list[float], int]:
        clock, done, wakes = VirtualClock(start=0), [], 0
        pending: set[asyncio.Future[None]] = set()

        async def idle() -> bool:
            nonlocal wakes
            wakes += 1
            busy = bool(pending)
            while pending:
                await asyncio.wait(pending)
            return busy

        async def worker() -> None:
            await clock.sleep(1)
            job = asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.01)
            pending.add(job)
            await job
            pending.discard(job)
            done.append(clock.now())

        stop = clock.on_idle(idle)
        task = asyncio.create_task(worker())
        await clock.advance(100)
        await task
        before = wakes
        stop()
        await clock.advance(1)
        return done, wakes - before

    assert asyncio.run(scenario()) == ([1], 0)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    assert clock.next_wake() == clock.now() + 5
    task.cancel()
    await clock.settle()
    assert clock.next_wake() is None
    await clock.advance(10)


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
def test_wall_clock_jump_does_not_affect_monotonic_sleepers(jump_s: int) -> None:
    async def scenario() -> list[float]:
        clock, woke = VirtualClock(), []
        started_at = clock.monotonic()

        async def sleeper() -> None:
            await clock.sleep(10)
            woke.append(clock.monotonic() - started_at)
            await clock.sleep_monotonic(started_at + 30)
            woke.append(clock.monotonic() - started_at)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sleeper())
            await clock.advance(5)
            clock.set_wall_clock(clock.now() + jump_s)
            await clock.advance(25)
        return woke

    assert asyncio.run(scenario()) == [10, 30]


def test_sleep_until_follows_wall_clock_jumps() -> None:
    async def scenario() -> list[float]:
        clock, woke = VirtualClock(start=1000), []

        async def sleeper(when: float) -> None:
            await clock.sleep_until(when)
            woke.append(clock.now())

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sleeper(1100))
            tasks.create_task(sleeper(2000))
            await clock.advance(50)
            clock.set_wall_clock(900)
            await clock.advance(150)
            assert woke == []
            await clock.advance(50)
            clock.set_wall_clock(2500)
            await clock.advance(0)
        return woke

    assert asyncio.run(scenario()) == [1100, 2500]


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
def test_real_clock_sleeper_wakes_after_a_wall_clock_jump(monkeypatch: pytest.MonkeyPatch, jump_s: int) -> None:
    async def scenario() -> list[float]:
        clock, slept = RealClock(), []
        wall = {"now": 5000.0, "monotonic": 100.0}

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            wall["now"] += seconds
            wall["monotonic"] += seconds
            if len(slept) == 2:
                wall["now"] += jump_s

        monkeypatch.setattr(time, "time", lambda: wall["now"])
        monkeypatch.setattr(time, "monotonic", lambda: wall["monotonic"])
        monkeypatch.setattr(asyncio, "sleep", sleep)
        await clock.sleep_monotonic(1e6, wall_offset=wall_offset(clock))
        return slept

    assert asyncio.run(scenario()) == [WALL_CHECK_S, WALL_CHECK_S]
