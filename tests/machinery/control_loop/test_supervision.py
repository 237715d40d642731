"""Failed parts are restarted with a backoff and reported meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from sampan.host.clock import VirtualClock
from sampan.machinery.control_loop.supervision import NoSupervision, Supervisor, describe_failure


class Part:
    """A part that fails when it is told to."""

    def __init__(self) -> None:
        self.starts = 0
        self._failure: asyncio.Future[None] | None = None

    async def run(self) -> None:
        self.starts += 1
        self._failure = asyncio.get_running_loop().create_future()
        await self._failure

    def fail(self, error: Exception) -> None:
        assert self._failure is not None
        self._failure.set_exception(error)


@asynccontextmanager
async def running(*work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_await(part)) for part in work]
        await settle()
        yield
        for task in tasks:
            task.cancel()


async def _await(part: Callable[[], Awaitable[None]]) -> None:
    await part()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_failed_part_is_restarted_after_a_backoff_that_grows() -> None:
    clock, part = VirtualClock(), Part()
    supervisor = Supervisor(clock=clock)
    pauses = []
    async with running(lambda: supervisor.run("proxy", part.run)):
        for count in range(1, 9):
            part.fail(OSError("no netlink"))
            await settle()
            pause_s = 0
            while part.starts == count:
                await clock.advance(1)
                await settle()
                pause_s += 1
            pauses.append(pause_s)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_part_that_has_run_for_long_starts_with_the_shortest_backoff() -> None:
    clock, part = VirtualClock(), Part()
    supervisor = Supervisor(clock=clock)
    async with running(lambda: supervisor.run("proxy", part.run)):
        for pause_s in (1, 2):
            part.fail(OSError())
            await settle()
            await clock.advance(pause_s)
            await settle()
        await clock.advance(3600)
        part.fail(OSError())
        await settle()
        await clock.advance(1)
        await settle()
        assert part.starts == 4


async def test_failures_are_reported_until_the_part_has_run_again_for_a_while() -> None:
    clock, part, other = VirtualClock(), Part(), Part()
    supervisor = Supervisor(clock=clock)
    manager = supervisor.narrow_to("manager")
    async with running(
        lambda: manager.run("informer", part.run), lambda: manager.narrow_to("node-0").run("informer", other.run)
    ):
        assert supervisor.failures() == {"manager": ""}
        part.fail(OSError("no\nnetlink"))
        await settle()
        assert supervisor.failures() == {"manager": "informer: OSError: no netlink"}
        other.fail(KeyError())
        await settle()
        assert supervisor.failures() == {"manager": "informer: OSError: no netlink; node-0: informer: KeyError"}
        await clock.advance(1)
        await settle()
        assert (part.starts, other.starts) == (2, 2)
        assert supervisor.failures()["manager"]
        await clock.advance(10)
        assert supervisor.failures() == {"manager": ""}
    assert supervisor.failures() == {}


async def test_failure_of_one_part_leaves_the_others_running(caplog: pytest.LogCaptureFixture) -> None:
    clock, part, other = VirtualClock(), Part(), Part()
    supervisor = Supervisor(clock=clock)
    async with running(lambda: supervisor.run("a", part.run), lambda: supervisor.run("b", other.run)):
        part.fail(ExceptionGroup("", [ValueError("x")]))
        await settle()
        assert supervisor.failures() == {"a": "ValueError: x", "b": ""}
        assert other.starts == 1
    assert "a failed, restarting in 1 s: ValueError: x" in caplog.text


async def test_part_that_returns_is_not_restarted() -> None:
    supervisor = Supervisor(clock=VirtualClock())

    async def end() -> None:
        return

    await supervisor.run("job", end)
    assert supervisor.failures() == {}


async def test_without_supervision_exceptions_pass() -> None:
    async def fail() -> None:
        raise OSError("no netlink")

    with pytest.raises(OSError, match="no netlink"):
        await NoSupervision().narrow_to("manager").run("proxy", fail)


def test_descriptions_of_failures_are_single_lines_of_limited_length() -> None:
    assert describe_failure(KeyError()) == "KeyError"
    assert describe_failure(ExceptionGroup("g", [ExceptionGroup("h", [ValueError("a\n b")])])) == "ValueError: a b"
    assert len(describe_failure(ValueError("x" * 10**6))) < 400
