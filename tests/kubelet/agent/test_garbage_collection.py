"""Garbage collection of images: the order of removal, and failed removals."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sampan.host.clock import VirtualClock
from sampan.kubelet.agent.config import IMAGE_GC_OFF, AgentConfig
from sampan.kubelet.agent.garbage_collection import ImageGarbageCollector, OrphanCollector, select_images_to_remove
from sampan.runtimes.contract import ImageInfo, RuntimeFailure

CONFIG = AgentConfig(name="n", root=Path("/"), logs=Path("/"), eviction_hard={"nodefs.available": "10%"})


class FakeRuntime:
    """A runtime with two images, one of which cannot be removed."""

    def __init__(self) -> None:
        self.remaining = [ImageInfo(id=name, names=(name,), size=10) for name in ("stuck", "loose")]

    async def images(self) -> list[ImageInfo]:
        return self.remaining

    async def remove_image(self, name: str) -> None:
        if name == "stuck":
            raise RuntimeFailure("ImageError", "it is held")
        self.remaining = [image for image in self.remaining if image.id != name]


async def test_failed_image_removal_does_not_stop_garbage_collection() -> None:
    runtime: Any = FakeRuntime()
    clock, messages, kept = VirtualClock(), list[str](), list[set[str]]()
    collector = ImageGarbageCollector(
        config=CONFIG,
        runtime=runtime,
        clock=clock,
        in_use=set,
        record_event=lambda reason, message: messages.append(reason),
        forget=lambda present, before: kept.append(set(present)),
        disk=lambda directory: (1, 100),
    )
    await collector.remove_unused()
    assert [image.id for image in runtime.remaining] == ["stuck"]
    assert kept == [{"stuck"}]
    await clock.advance(3600)
    with pytest.raises(RuntimeFailure):
        await collector.collect()
    assert messages == ["FreeDiskSpaceFailed"]


async def test_images_are_kept_on_a_full_disk_if_garbage_collection_is_off() -> None:
    """Only disk pressure removes them. Otherwise each image would be pulled again for each pod."""
    runtime: Any = FakeRuntime()
    clock = VirtualClock()
    collector = ImageGarbageCollector(
        config=replace(CONFIG, image_gc_high=IMAGE_GC_OFF),
        runtime=runtime,
        clock=clock,
        in_use=set,
        record_event=lambda reason, message: None,
        forget=lambda present, before: None,
        disk=lambda directory: (0, 100),
    )
    await clock.advance(3600)
    assert await collector.collect() == []
    assert len(runtime.remaining) == 2


def test_images_unused_for_longest_are_removed_first() -> None:
    images = [ImageInfo(id=name, size=10) for name in ("old", "older", "used", "young")]
    images.append(ImageInfo(id="pinned", size=10, is_pinned=True))
    used_at = {"old": 2.0, "older": 1.0, "used": 0.0, "young": 9.0, "pinned": 0.0}
    removed = select_images_to_remove(images, used_at, {"used"}, bytes_to_free=15, old=5.0)
    assert [image.id for image in removed] == ["older", "old"]
    assert [image.id for image in select_images_to_remove(images, used_at, {"used"}, bytes_to_free=5, old=5.0)] == [
        "older"
    ]


async def test_logs_of_other_pods_stay_when_the_uid_of_an_orphan_is_a_pattern(tmp_path: Path) -> None:
    """The author of a static pod chooses its UID."""
    for directory in ("pods/*", "logs/ns_kept_u-1", "logs/ns_gone_*"):
        (tmp_path / directory).mkdir(parents=True)
    parts: Any = OrphanParts()
    collector = OrphanCollector(
        runtime=parts, volumes=parts, cgroups=parts, plugins=parts, root=tmp_path, logs=tmp_path / "logs"
    )
    assert await collector.remove({"u-1"}) == ["*"]
    assert os.listdir(tmp_path / "logs") == ["ns_kept_u-1"]
    assert os.listdir(tmp_path / "pods") == []


class OrphanParts:
    """The collaborators of the collector of orphans, which know no pods."""

    def list_pod_uids(self) -> list[str]:
        return []

    async def remove_pod(self, uid: str) -> None: ...

    async def unmount(self, uid: str) -> None: ...

    async def keep_only(self, known: Any) -> None: ...

    def remove(self, uid: str) -> None: ...
