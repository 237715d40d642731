import asyncio

from sampan.apiserver.http.pump import Pump
from tests.eventually import eventually
from tests.storage.cacher.cacher_store import virtual


class Scene:
    """A pump in virtual time, which passes while somebody sends; who has sent."""

    def __init__(self) -> None:
        self.spent_s, self.log = 0.0, list[str]()
        self.pump = Pump(now=self.now)

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.spent_s

    def add(self, name: str, *, takes_s: float = 0, again: int = 0) -> None:
        self.pump.add(Sender(self, name, takes_s, again))


class Sender:
    def __init__(self, scene: Scene, name: str, takes_s: float, again: int) -> None:
        self._scene, self._name = scene, name
        self._takes_s, self._again = takes_s, again

    def send(self) -> None:
        self._scene.log.append(self._name)
        self._scene.spent_s += self._takes_s
        if self._again:
            self._again -= 1
            self._scene.pump.add(self)


@virtual
async def test_what_is_ready_goes_out_in_one_turn_in_order() -> None:
    scene = Scene()
    for name in "abc":
        scene.add(name)
    assert scene.log == []
    await asyncio.sleep(0)
    assert scene.log == ["a", "b", "c"]


@virtual
async def test_one_that_has_more_waits_for_the_next_turn() -> None:
    scene = Scene()
    scene.add("a", again=2)
    scene.add("b")
    await eventually(lambda: len(scene.log) == 4)
    assert scene.log == ["a", "b", "a", "a"]


@virtual
async def test_a_long_turn_is_broken_off_and_nobody_is_forgotten() -> None:
    scene = Scene()
    for name in "abc":
        scene.add(name, takes_s=0.02)
    await asyncio.sleep(0)
    assert scene.log == ["a"]
    await eventually(lambda: len(scene.log) == 3)
    assert scene.log == ["a", "b", "c"]


@virtual
async def test_a_long_turn_is_followed_by_a_pause_and_a_short_one_is_not() -> None:
    scene = Scene()
    scene.add("long", takes_s=0.005)
    await asyncio.sleep(0)
    scene.add("next")
    await asyncio.sleep(0.019)
    assert scene.log == ["long"]
    await asyncio.sleep(0.002)
    assert scene.log == ["long", "next"]
    scene.add("last")
    await asyncio.sleep(0)
    assert scene.log == ["long", "next", "last"]
