"""What must not stop a kubelet from looking after its node: an engine that fails, a disk that cannot be read."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.eviction.manager import EvictionManager
from sampan.kubelet.agent.eviction.rules import Observation
from sampan.kubelet.agent.garbage_collection import ImageGarbageCollector
from sampan.machinery.clock import VirtualClock
from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from tests.eventually import eventually

CONFIG = AgentConfig(name="n", root=Path("/"), logs=Path("/"), eviction_hard={"nodefs.available": "10%"})


class Engine:
    """Of two images, one cannot be removed."""

    def __init__(self) -> None:
        self.left = [ImageInfo(id=name, names=(name,), size=10) for name in ("stuck", "loose")]

    async def images(self) -> list[ImageInfo]:
        return self.left

    async def remove_image(self, name: str) -> None:
        if name == "stuck":
            raise RuntimeFailure("ImageError", "it is held")
        self.left = [image for image in self.left if image.id != name]


async def test_an_image_that_cannot_be_removed_keeps_no_other() -> None:
    engine: Any = Engine()
    clock, messages, kept = VirtualClock(), list[str](), list[set[str]]()
    collector = ImageGarbageCollector(
        config=CONFIG,
        runtime=engine,
        clock=clock,
        in_use=set,
        record_event=lambda reason, message: messages.append(reason),
        forget=lambda present, before: kept.append(set(present)),
        disk=lambda directory: (1, 100),
    )
    await collector.remove_unused()
    assert [image.id for image in engine.left] == ["stuck"]
    assert kept == [{"stuck"}]
    await clock.advance(3600)
    with pytest.raises(RuntimeFailure):
        await collector.collect()
    assert messages == ["FreeDiskSpaceFailed"]


def test_it_is_looked_again_whatever_happened(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock, looks = VirtualClock(), list[str]()

        def observe() -> dict[str, Observation]:
            looks.append("look")
            if len(looks) == 1:
                raise OSError("too many open files")
            return {"nodefs.available": Observation(1, 100)}

        async def reclaim_disk(signal: str) -> None:
            looks.append("room")
            raise RuntimeFailure("ImageError", "the engine is away")

        anything: Any = None
        eviction = EvictionManager(
            config=CONFIG,
            runtime=anything,
            clock=clock,
            pods=list,
            volumes=anything,
            evict=anything,
            record_event=lambda message: None,
            reclaim_disk=reclaim_disk,
            on_change=lambda: None,
            has_terminated=lambda pod: True,
            observe=observe,
        )
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            running = group.create_task(eviction.run())
            await eventually(lambda: looks.count("room") >= 2, step=lambda: clock.advance(CONFIG.eviction_period_s))
            assert eviction.types == ["DiskPressure"]
            running.cancel()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "too many open files" in caplog.text
    assert "by garbage collection: the engine is away" in caplog.text
