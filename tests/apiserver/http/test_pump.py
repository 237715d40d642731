import asyncio
import time

from sampan.apiserver.http.pump import Pump
from tests.apiserver.http.wire import until


class Sender:
    def __init__(self, pump: Pump, log: list[str], name: str, *, takes_s: float = 0, again: int = 0) -> None:
        self._pump, self._log, self._name = pump, log, name
        self._takes_s, self._again = takes_s, again

    def send(self) -> None:
        self._log.append(self._name)
        end = time.perf_counter() + self._takes_s
        while time.perf_counter() < end:
            pass
        if self._again:
            self._again -= 1
            self._pump.add(self)


def test_what_is_ready_goes_out_in_one_turn_in_order() -> None:
    async def run() -> None:
        pump, log = Pump(), list[str]()
        for name in "abc":
            pump.add(Sender(pump, log, name))
        assert log == []
        await asyncio.sleep(0)
        assert log == ["a", "b", "c"]

    asyncio.run(run())


def test_one_that_has_more_waits_for_the_next_turn() -> None:
    async def run() -> None:
        pump, log = Pump(), list[str]()
        pump.add(Sender(pump, log, "a", again=2))
        pump.add(Sender(pump, log, "b"))
        await until(lambda: len(log) == 4)
        assert log == ["a", "b", "a", "a"]

    asyncio.run(run())


def test_a_long_turn_is_broken_off_and_nobody_is_forgotten() -> None:
    async def run() -> None:
        pump, log = Pump(), list[str]()
        for name in "abc":
            pump.add(Sender(pump, log, name, takes_s=0.02))
        await asyncio.sleep(0)
        assert log == ["a"]
        await until(lambda: len(log) == 3)
        assert log == ["a", "b", "c"]

    asyncio.run(run())


def test_a_long_turn_is_followed_by_a_pause_and_a_short_one_is_not() -> None:
    async def run() -> None:
        pump, log = Pump(), list[str]()
        pump.add(Sender(pump, log, "long", takes_s=0.005))
        await asyncio.sleep(0)
        began = time.perf_counter()
        pump.add(Sender(pump, log, "next"))
        await until(lambda: len(log) == 2)
        assert time.perf_counter() - began > 0.01
        await asyncio.sleep(0.03)
        pump.add(Sender(pump, log, "last"))
        await asyncio.sleep(0)
        assert log == ["long", "next", "last"]

    asyncio.run(run())
