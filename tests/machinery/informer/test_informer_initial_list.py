"""Handlers receive the existing objects of an informer in slices, while the objects change."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.types.core_v1 import ConfigMap
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host import time_slice
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName
from sampan.scheduler.simulation import Simulation


def config_map_of(name: str, version: int) -> ConfigMap:
    meta = ObjectMeta(name=name, namespace="x", uid=name, resourceVersion=str(version))
    return ConfigMap(metadata=meta)


changes = st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=12)


@settings(max_examples=80, deadline=None)
@given(st.sets(st.sampled_from("abcdef")), changes, st.integers(1, 4))
def test_handler_sees_no_outdated_state_while_objects_change(
    existing: set[str], changes: list[tuple[str, bool]], changes_per_turn: int
) -> None:
    """Whatever happens between two slices, the handler ends with the current objects and sees no outdated state."""

    async def main() -> None:
        factory: InformerFactory = Simulation().handle.informers
        informer = factory.for_kind(ConfigMap)
        for at, name in enumerate(sorted(existing)):
            informer._put(NamespacedName("x", name), config_map_of(name, at + 1))
        known: dict[str, int] = {}

        def handle(old: Any, new: Any) -> None:
            name = (new or old).metadata.name
            assert (old is not None) == (name in known)
            if old is not None:
                assert known[name] == int(old.metadata.resourceVersion)
            if new is None:
                del known[name]
            else:
                known[name] = int(new.metadata.resourceVersion)

        task = asyncio.create_task(informer.follow(handle))
        for at, (name, stays) in enumerate(changes):
            if not at % changes_per_turn:
                await asyncio.sleep(0)
            if stays:
                informer._put(NamespacedName("x", name), config_map_of(name, 100 + at))
            else:
                informer._remove(NamespacedName("x", name))
        stop = await task
        assert known == {
            config_map.metadata.name: int(config_map.metadata.resourceVersion) for config_map in informer.lister
        }
        stop()
        informer._put(NamespacedName("x", "late"), config_map_of("late", 1))
        assert "late" not in known

    before = time_slice.SLICE_S
    time_slice.SLICE_S = -1.0
    try:
        asyncio.run(main())
    finally:
        time_slice.SLICE_S = before
