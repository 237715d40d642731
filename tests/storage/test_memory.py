"""The memory store passes the suite that every store passes."""

import pytest

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.machinery.clock import VirtualClock  # noqa: E402
from sampan.storage.memory import MemoryBackend  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, Check, Subject, run  # noqa: E402


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check) -> None:
    clock = VirtualClock()
    run(check, Subject(open=lambda: MemoryBackend(clock=clock), advance=clock.advance, is_local=True))


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
async def test_a_wall_clock_that_is_set_moves_no_expiry(jump_s: int) -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock) as backend:
        await backend.put("/registry/events/a", b"x", ttl_s=60)
        await clock.advance(10)
        clock.set_wall_clock(clock.now() + jump_s)
        await clock.advance(45)
        assert (await backend.get("/registry/events/a"))[0] is not None
        await clock.advance(10)
        assert (await backend.get("/registry/events/a"))[0] is None
