"""persistentvolume-expander-controller against a whole API server."""

import asyncio
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Event, ObjectReference, PersistentVolume, PersistentVolumeClaim
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.storage.expansion import (
    VolumeExpanderController,
    is_bound_to,
    needs_expansion,
    with_requested_capacity,
)
from sampan.machinery.volumes import LOCAL_PATH
from tests.controllers.cluster import check_second_run_writes_nothing, cluster
from tests.controllers.storage.builders import claim, volume

NAME, BINDER = VolumeExpanderController.name, "persistentvolume-binder-controller"
EXPAND = {"spec": {"resources": {"requests": {"storage": "4Gi"}}}}


def bound_claim(request: str, capacity: str, phase: str = "Bound") -> PersistentVolumeClaim:
    new_claim = claim(size=request)
    new_claim.status.phase, new_claim.status.capacity = phase, {"storage": capacity}
    return new_claim


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (bound_claim("2Gi", "1Gi"), True),
        (bound_claim("1Gi", "1024Mi"), False),
        (bound_claim("1Gi", "2Gi"), False),
        (bound_claim("2Gi", "1Gi", "Pending"), False),
        (claim(), False),
    ],
)
def test_bound_claim_with_a_larger_request_wants_expansion(claim: PersistentVolumeClaim, expected: bool) -> None:
    assert needs_expansion(claim) is expected


def test_grown_claim_and_volume_of_a_claim() -> None:
    assert with_requested_capacity(bound_claim("2Gi", "1Gi")).status.capacity == {"storage": "2Gi"}
    owner = claim()
    owner.metadata.uid = "1"
    assert is_bound_to(volume(claimRef=ObjectReference(namespace="default", name="c", uid="1")), owner)
    assert not is_bound_to(volume(), owner)


@pytest.mark.parametrize("provisioner", [LOCAL_PATH, "csi.example.com"])
def test_claim_is_expanded_or_waits_for_an_external_expander(provisioner: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster() as c:
            claims, volumes = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(PersistentVolume)
            storage_class = StorageClass(
                metadata=ObjectMeta(name="fast"), provisioner=provisioner, allowVolumeExpansion=True
            )
            await c.client.for_kind(StorageClass).create(storage_class)
            async with c.running(NAME, BINDER, config=ControllerConfig(local_volume_root=str(tmp_path))):
                if provisioner != LOCAL_PATH:
                    await volumes.create(volume(storageClassName="fast"))
                await claims.create(claim(storageClassName="fast"))
                await c.clock.settle()
                await claims.patch("c", EXPAND, "default")
                await c.clock.settle()
                stored_claim = await claims.get("c", "default")
                messages = {(event.reason, event.message) for event in (await c.client.for_kind(Event).list()).items}
                if provisioner == LOCAL_PATH:
                    assert stored_claim.status.capacity == {"storage": "4Gi"}
                    assert (await volumes.get(stored_claim.spec.volumeName)).spec.capacity == {"storage": "4Gi"}
                    assert ("VolumeResizeSuccessful", "ExpandVolume succeeded for volume default/c") in messages
                else:
                    assert stored_claim.status.capacity == {"storage": "1Gi"}
                    assert ("ExternalExpanding", "waiting for an external controller to expand this PVC") in messages
            if provisioner == LOCAL_PATH:
                await check_second_run_writes_nothing(c, NAME, BINDER)

    asyncio.run(main())
