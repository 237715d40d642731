"""Owners and dependents created and deleted at random, while the garbage collector is stopped and started."""

import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from sampan.api.types.core_v1 import ConfigMap, Secret
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.controllers.garbage.collector import GarbageCollectorController
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters
from tests.controllers.cluster import Cluster, cluster

NAME = GarbageCollectorController.name
KINDS: tuple[type[Any], ...] = (ConfigMap, Secret)
POLICIES = ("Background", "Foreground", "Orphan", "")
STEPS = 80


class Chaos:
    def __init__(self, c: Cluster, seed: int) -> None:
        self._c, self._dice = c, random.Random(seed)
        self._created: list[OwnerReference] = []
        self._serial = 0

    async def step(self) -> None:
        if self._dice.random() < 0.6:
            await self._make()
        elif self._created:
            await self._delete(self._dice.choice(self._created))
        if self._dice.random() < 0.3:
            await self._c.clock.settle()

    async def _make(self) -> None:
        """Create an object with up to three owners, each of which exists or existed."""
        self._serial += 1
        kind = self._dice.choice(KINDS)
        owners = self._dice.sample(self._created, min(len(self._created), self._dice.choice((0, 0, 1, 1, 2, 3))))
        name = f"o{self._serial}"
        meta = ObjectMeta(
            name=name, namespace="default", ownerReferences=[self._randomize_reference(ref) for ref in owners]
        )
        obj = await self._c.client.for_kind(kind).create(kind(metadata=meta))
        self._created.append(OwnerReference(apiVersion="v1", kind=kind.__name__, name=name, uid=obj.metadata.uid))

    def _randomize_reference(self, ref: OwnerReference) -> OwnerReference:
        blocks = self._dice.choice((True, False, None))
        return OwnerReference(apiVersion="v1", kind=ref.kind, name=ref.name, uid=ref.uid, blockOwnerDeletion=blocks)

    async def _delete(self, ref: OwnerReference) -> None:
        kind = next(kind for kind in KINDS if kind.__name__ == ref.kind)
        options = DeleteParameters(propagation=self._dice.choice(POLICIES), uid=ref.uid)
        try:
            await self._c.client.for_kind(kind).delete(ref.name, "default", options=options)
        except (errors.NotFound, errors.Conflict):
            return


async def check_owner_references(c: Cluster) -> None:
    """Check that no object is being deleted or has a finalizer, and that every owner reference has its owner."""
    objects = [obj for kind in KINDS for obj in (await c.client.for_kind(kind).list()).items]
    uids = {obj.metadata.uid for obj in objects}
    for obj in objects:
        assert obj.metadata.deletionTimestamp is None, obj.metadata.name
        assert obj.metadata.finalizers == []
        assert [ref.name for ref in obj.metadata.ownerReferences if ref.uid not in uids] == []


@pytest.mark.parametrize("seed", range(6))
async def test_no_dependent_outlives_its_owners(seed: int) -> None:
    async with cluster() as c:
        chaos, dice = Chaos(c, seed), random.Random(seed + 1000)
        for _ in range(4):
            async with AsyncExitStack() as running:
                if dice.random() < 0.7:
                    await running.enter_async_context(c.running(NAME))
                for _ in range(STEPS // 4):
                    await chaos.step()
        async with c.running(NAME) as manager:
            await c.clock.advance(60)
            await check_owner_references(c)
            graph = manager.runners[0].controller.graph  # type: ignore[attr-defined]
            owned = [obj for kind in KINDS for obj in (await c.client.for_kind(kind).list()).items]
            linked = {obj.metadata.uid for obj in owned if obj.metadata.ownerReferences}
            linked |= {ref.uid for obj in owned for ref in obj.metadata.ownerReferences}
            assert graph.size() == len(linked)
