"""The memory store: the conformance suite, expiry, compaction and forks."""

import pytest

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.host.clock import VirtualClock  # noqa: E402
from sampan.storage.backend import Compacted  # noqa: E402
from sampan.storage.memory import MemoryBackend  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, BackendSubject, Check, run  # noqa: E402


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check) -> None:
    clock = VirtualClock()
    run(check, BackendSubject(open=lambda: MemoryBackend(clock=clock), advance=clock.advance, is_local=True))


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
async def test_wall_clock_change_does_not_affect_expiry(jump_s: int) -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock) as backend:
        await backend.put("/registry/events/a", b"x", ttl_s=60)
        await clock.advance(10)
        clock.set_wall_clock(clock.now() + jump_s)
        await clock.advance(45)
        assert (await backend.get("/registry/events/a"))[0] is not None
        await clock.advance(10)
        assert (await backend.get("/registry/events/a"))[0] is None


async def test_history_is_compacted_automatically() -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock, compaction_interval_s=300) as backend:
        first = await backend.put("/a", b"1")
        await backend.put("/a", b"2")
        await clock.advance(299)
        assert (await backend.get("/a", revision=first))[0] is not None
        await backend.put("/a", b"3")
        await clock.advance(302)
        with pytest.raises(Compacted):
            await backend.get("/a", revision=first)
        await clock.advance(300)
        assert clock.next_wake() is None, "a store without writes has no timer"


async def test_fork_starts_with_the_content_of_another_backend() -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock) as original:
        first = await original.put("/registry/a", b"1")
        await original.put("/registry/a", b"2")
        await original.put("/registry/events/b", b"x", ttl_s=60)
        await clock.advance(30)
        forked_clock = clock.fork()
        async with MemoryBackend(clock=forked_clock, content=original.content()) as fork:
            assert await fork.range("/registry/") == await original.range("/registry/")
            old, _ = await fork.get("/registry/a", revision=first)
            assert old is not None
            assert old.value == b"1"
            async with fork.watch("/registry/", after=first) as watch:
                assert [event.value for event in (await anext(aiter(watch))).events] == [b"2", b"x"]
            await original.put("/registry/c", b"3")
            assert (await fork.get("/registry/c"))[0] is None
            await forked_clock.advance(31)
            assert (await fork.get("/registry/events/b"))[0] is None
            assert (await original.get("/registry/events/b"))[0] is not None
