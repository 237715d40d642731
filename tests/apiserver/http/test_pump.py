import asyncio

from sampan.apiserver.http.pump import Pump
from tests.eventually import eventually
from tests.storage.cacher.cacher_store import run_in_virtual_time


class Setup:
    """A pump in virtual time, which advances while a sender sends, and the log of its senders."""

    def __init__(self) -> None:
        self.spent_s, self.log = 0.0, list[str]()
        self.pump = Pump(now=self.now)

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.spent_s

    def add(self, name: str, *, takes_s: float = 0, repeats: int = 0) -> None:
        self.pump.add(Sender(self, name, takes_s, repeats))


class Sender:
    def __init__(self, setup: Setup, name: str, takes_s: float, repeats: int) -> None:
        self._setup, self._name = setup, name
        self._takes_s, self._repeats = takes_s, repeats

    def send(self) -> None:
        self._setup.log.append(self._name)
        self._setup.spent_s += self._takes_s
        if self._repeats:
            self._repeats -= 1
            self._setup.pump.add(self)


@run_in_virtual_time
async def test_ready_senders_send_in_order_in_one_turn() -> None:
    setup = Setup()
    for name in "abc":
        setup.add(name)
    assert setup.log == []
    await asyncio.sleep(0)
    assert setup.log == ["a", "b", "c"]


@run_in_virtual_time
async def test_sender_with_more_data_waits_for_the_next_turn() -> None:
    setup = Setup()
    setup.add("a", repeats=2)
    setup.add("b")
    await eventually(lambda: len(setup.log) == 4)
    assert setup.log == ["a", "b", "a", "a"]


@run_in_virtual_time
async def test_long_turn_is_interrupted_without_losing_senders() -> None:
    setup = Setup()
    for name in "abc":
        setup.add(name, takes_s=0.02)
    await asyncio.sleep(0)
    assert setup.log == ["a"]
    await eventually(lambda: len(setup.log) == 3)
    assert setup.log == ["a", "b", "c"]


@run_in_virtual_time
async def test_only_a_long_turn_is_followed_by_a_pause() -> None:
    setup = Setup()
    setup.add("long", takes_s=0.005)
    await asyncio.sleep(0)
    setup.add("next")
    await asyncio.sleep(0.019)
    assert setup.log == ["long"]
    await asyncio.sleep(0.002)
    assert setup.log == ["long", "next"]
    setup.add("last")
    await asyncio.sleep(0)
    assert setup.log == ["long", "next", "last"]
