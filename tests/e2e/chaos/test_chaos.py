"""A cluster heals itself, whatever is killed, deleted or switched off; and never has anything twice."""

import asyncio

import pytest

from tests.e2e.chaos.component_cluster import Scene, scene
from tests.e2e.chaos.history import Rules
from tests.e2e.chaos.workloads import Sizes, amiss

FULL = Sizes(deployments=50, stateful_sets=20, jobs=20, daemon_sets=20, nodes=30)
HEALED_WITHIN_S = 900
"""Of virtual time: a node that was silent has its pods for five minutes more, and controllers back off."""


async def healed(s: Scene) -> None:
    await s.switch_on()
    left: list[str] = []
    for _ in range(HEALED_WITHIN_S // 15):
        await s.cluster.clock.advance(15)
        assert s.running_twice() == []
        if not (left := await amiss(s.cluster.client)):
            return
    raise AssertionError(f"after {HEALED_WITHIN_S} s: {left}")


async def play(seed: int, sizes: Sizes, turns: int) -> None:
    async with asyncio.timeout(1500), scene(seed, sizes) as s:
        for _ in range(turns):
            await s.cluster.clock.advance(s.random.choice([0, 1, 5, 30, 120]))
            assert s.running_twice() == []
            await s.disturb()
        await healed(s)
        changes = list(s.history.changes)
        await s.stop("controllers")
        await s.start_controllers()
        assert s.history.changes == changes, "nothing is left to do"
    assert list(Rules().broken(changes)) == []


def test_all_is_well_in_the_end() -> None:
    asyncio.run(play(1, FULL, 40))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(12))
def test_all_is_well_in_the_end_of_a_long_day(seed: int) -> None:
    asyncio.run(play(seed, FULL, 150))
