"""Persistent volumes and claims created and deleted at random: in the end each volume is bound to one claim."""

import random
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.descriptor import ControllerConfig
from sampan.machinery import errors
from sampan.machinery.volumes import LOCAL_PATH
from tests.controllers.cluster import Cluster, cluster
from tests.controllers.storage.builders import claim, volume

CONTROLLERS = (
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)
STEPS = 60
CLASSES = ("", "slow", "made")
SIZES = ("1Gi", "2Gi", "3Gi")


class Chaos:
    def __init__(self, c: Cluster, seed: int) -> None:
        self._c, self._dice = c, random.Random(seed)

    async def step(self) -> None:
        dice, claims, volumes = (
            self._dice,
            self._c.client.for_kind(PersistentVolumeClaim),
            self._c.client.for_kind(PersistentVolume),
        )
        name = f"o{dice.randrange(12)}"
        try:
            match dice.randrange(5):
                case 0 | 1:
                    await claims.create(claim(name, dice.choice(SIZES), storageClassName=dice.choice(CLASSES)))
                case 2 | 3:
                    policy = dice.choice(("Retain", "Retain", "Delete"))
                    kind = dice.choice(CLASSES[:2])
                    new_volume = volume(
                        name, dice.choice(SIZES), storageClassName=kind, persistentVolumeReclaimPolicy=policy
                    )
                    await volumes.create(new_volume)
                case _:
                    await claims.delete(name, "default")
        except (errors.AlreadyExists, errors.NotFound, errors.Conflict):
            return
        if dice.random() < 0.4:
            await self._c.clock.settle()


async def check_bindings(c: Cluster) -> None:
    claims = {claim.metadata.uid: claim for claim in (await c.client.for_kind(PersistentVolumeClaim).list()).items}
    volumes = {volume.metadata.name: volume for volume in (await c.client.for_kind(PersistentVolume).list()).items}
    for stored in claims.values():
        assert stored.metadata.deletionTimestamp is None
        if stored.status.phase == "Bound":
            ref = volumes[stored.spec.volumeName].spec.claimRef
            assert ref is not None
            assert ref.uid == stored.metadata.uid
        else:
            assert (stored.status.phase, stored.spec.volumeName) == ("Pending", "")
            assert stored.spec.storageClassName != "made"
    for held in volumes.values():
        owner = claims.get(held.spec.claimRef.uid) if held.spec.claimRef is not None else None
        if owner is not None:
            assert (held.status.phase, owner.spec.volumeName) == ("Bound", held.metadata.name)
        else:
            assert held.status.phase == ("Available" if held.spec.claimRef is None else "Released")


@pytest.mark.parametrize("seed", range(5))
async def test_every_bound_volume_and_its_claim_name_each_other(seed: int, tmp_path: Path) -> None:
    config = ControllerConfig(local_volume_root=str(tmp_path))
    async with cluster() as c:
        await c.client.for_kind(StorageClass).create(
            StorageClass(metadata=ObjectMeta(name="made"), provisioner=LOCAL_PATH)
        )
        chaos = Chaos(c, seed)
        for _ in range(3):
            async with c.running(*CONTROLLERS, config=config):
                for _ in range(STEPS // 3):
                    await chaos.step()
            for _ in range(3):
                await chaos.step()
        async with c.running(*CONTROLLERS, config=config):
            await c.clock.advance(60)
            await check_bindings(c)
