"""persistentvolume-binder-controller against a whole API server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sampan.api.types.core_v1 import (
    Event,
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ServiceAccount,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.storage.binder import PersistentVolumeBinderController
from sampan.machinery import errors
from sampan.machinery.client import PatchType, Selection
from sampan.machinery.copies import copy_of
from sampan.machinery.volumes import LOCAL_PATH
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster
from tests.controllers.storage.builders import claim, pod_using, volume

NAME = PersistentVolumeBinderController.name
PROTECTION = ("persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller")
ALL = (NAME, *PROTECTION)
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def storage_class(name: str, provisioner: str = LOCAL_PATH, **more: Any) -> StorageClass:
    meta = ObjectMeta(name=name, annotations=more.pop("annotations", {}))
    return StorageClass(metadata=meta, provisioner=provisioner, **more)


async def get_claim(c: Cluster, name: str = "c") -> PersistentVolumeClaim:
    return await c.client.for_kind(PersistentVolumeClaim).get(name, "default")


async def get_volume(c: Cluster, name: str = "v") -> PersistentVolume:
    return await c.client.for_kind(PersistentVolume).get(name)


async def events(c: Cluster) -> set[tuple[str, str, str, str]]:
    listed = (await c.client.for_kind(Event).list(Selection(namespace="default"))).items
    return {(event.involvedObject.name, event.type, event.reason, event.message) for event in listed}


async def test_claims_and_volumes_are_bound_in_either_creation_order() -> None:
    async with cluster() as c:
        claims, volumes = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(PersistentVolume)
        async with c.running(NAME):
            await claims.create(claim("first"))
            await c.clock.settle()
            assert (await get_claim(c, "first")).status.phase == "Pending"
            text = "no persistent volumes available for this claim and no storage class is set"
            assert ("first", "Normal", "FailedBinding", text) in await events(c)
            await volumes.create(volume("v", "5Gi"))
            await c.clock.settle()
            bound, volume_ = await get_claim(c, "first"), await get_volume(c)
            assert (bound.status.phase, bound.spec.volumeName) == ("Bound", "v")
            assert (bound.status.capacity, bound.status.accessModes) == ({"storage": "5Gi"}, ["ReadWriteOnce"])
            assert bound.metadata.annotations == {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }
            assert volume_.status.phase == "Bound"
            assert volume_.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
            ref = volume_.spec.claimRef
            assert ref is not None
            assert (ref.kind, ref.namespace, ref.name, ref.uid) == (
                "PersistentVolumeClaim",
                "default",
                "first",
                bound.metadata.uid,
            )
            await volumes.create(volume("w"))
            await c.clock.settle()
            assert (await get_volume(c, "w")).status.phase == "Available"
            await claims.create(claim("second"))
            await c.clock.settle()
            assert (await get_claim(c, "second")).spec.volumeName == "w"
        await check_second_run_writes_nothing(c, NAME)


async def test_30_claims_are_bound_to_30_distinct_volumes() -> None:
    async with cluster() as c, c.running(NAME):
        claims, volumes = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(PersistentVolume)
        for at in range(30):
            await volumes.create(volume(f"v{at}"))
            await claims.create(claim(f"c{at}"))
        await c.clock.advance(10)
        bound = {claim_.spec.volumeName for claim_ in (await claims.list()).items if claim_.status.phase == "Bound"}
        assert len(bound) == 30


async def test_claim_ref_and_volume_name_set_beforehand_are_honoured() -> None:
    async with cluster() as c, c.running(NAME):
        claims, volumes = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(PersistentVolume)
        await volumes.create(volume("small"))
        await volumes.create(volume("meant", "9Gi", claimRef=ObjectReference(namespace="default", name="c")))
        await volumes.create(volume("asked", "9Gi"))
        await c.clock.settle()
        assert (await get_volume(c, "meant")).status.phase == "Available"
        await claims.create(claim("c"))
        await claims.create(claim("d", volumeName="asked"))
        await claims.create(claim("e", volumeName="asked"))
        await claims.create(claim("f", "2Gi", volumeName="small"))
        await claims.create(claim("g", volumeName="missing"))
        await c.clock.advance(1)
        claims_ = {name: await get_claim(c, name) for name in "cdefg"}
        assert {name: claim_.status.phase for name, claim_ in claims_.items()} == {
            "c": "Bound",
            "d": "Bound",
            "e": "Pending",
            "f": "Pending",
            "g": "Pending",
        }
        assert claims_["c"].spec.volumeName == "meant"
        assert "pv.kubernetes.io/bound-by-controller" not in claims_["d"].metadata.annotations
        recorded = await events(c)
        assert ("e", "Warning", "FailedBinding", 'volume "asked" already bound to a different claim.') in recorded
        text = 'Cannot bind to requested volume "small": requested PV is too small'
        assert ("f", "Warning", "VolumeMismatch", text) in recorded


@pytest.mark.parametrize(("policy", "phase"), [("Retain", "Released"), ("Recycle", "Failed")])
async def test_phase_of_a_released_volume_by_reclaim_policy(policy: str, phase: str) -> None:
    async with cluster() as c, c.running(*ALL):
        claims = c.client.for_kind(PersistentVolumeClaim)
        await c.client.for_kind(PersistentVolume).create(volume(persistentVolumeReclaimPolicy=policy))
        await claims.create(claim())
        await c.clock.settle()
        await claims.delete("c", "default")
        await c.clock.settle()
        assert (await get_volume(c)).status.phase == phase
        if policy == "Recycle":
            assert (
                "v",
                "Warning",
                "VolumeFailedRecycle",
                "No recycler plugin found for the volume!",
            ) in await events(c)
        await claims.create(claim())
        await c.clock.settle()
        assert (await get_claim(c)).status.phase == "Pending"


async def test_host_path_volume_outside_tmp_is_not_deleted() -> None:
    async with cluster() as c, c.running(*ALL):
        claims, volumes = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(PersistentVolume)
        manifest = volume(persistentVolumeReclaimPolicy="Delete")
        assert manifest.spec.hostPath is not None
        manifest.spec.hostPath.path = "/srv/data"
        await volumes.create(manifest)
        await claims.create(claim())
        await c.clock.settle()
        await claims.delete("c", "default")
        await c.clock.advance(1)
        volume_ = await get_volume(c)
        text = "host_path deleter only supports /tmp/.+ but received provided /srv/data"
        assert (volume_.status.phase, volume_.status.message) == ("Failed", text)
        assert ("v", "Warning", "VolumeFailedDelete", text) in await events(c)


async def test_claim_whose_volume_was_deleted_becomes_lost() -> None:
    async with cluster() as c, c.running(NAME):
        volumes = c.client.for_kind(PersistentVolume)
        await volumes.create(volume())
        await c.client.for_kind(PersistentVolumeClaim).create(claim())
        await c.clock.settle()
        await volumes.patch("v", {"metadata": {"finalizers": None}}, type=PatchType.MERGE)
        await volumes.delete("v")
        await c.clock.settle()
        assert (await get_claim(c)).status.phase == "Lost"
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        assert ("c", "Warning", "ClaimLost", text) in await events(c)


def _fill(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("data")


def test_local_path_volume_is_provisioned_bound_and_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        config = ControllerConfig(local_volume_root=str(tmp_path))
        async with cluster() as c, c.running(*ALL, config=config):
            claims = c.client.for_kind(PersistentVolumeClaim)
            await c.client.for_kind(StorageClass).create(storage_class("fast"))
            claim_ = await claims.create(claim("c", "3Gi", storageClassName="fast"))
            await c.clock.settle()
            bound = await get_claim(c)
            name = f"pvc-{claim_.metadata.uid}"
            assert (bound.status.phase, bound.spec.volumeName) == ("Bound", name)
            for annotation in (
                "volume.kubernetes.io/storage-provisioner",
                "volume.beta.kubernetes.io/storage-provisioner",
            ):
                assert bound.metadata.annotations[annotation] == LOCAL_PATH
            volume = await get_volume(c, name)
            assert (volume.spec.storageClassName, volume.spec.capacity) == ("fast", {"storage": "3Gi"})
            assert volume.metadata.annotations["pv.kubernetes.io/provisioned-by"] == LOCAL_PATH
            assert "kubernetes.io/pv-controller" in volume.metadata.finalizers
            assert volume.spec.hostPath is not None
            path = Path(volume.spec.hostPath.path)
            assert path == tmp_path / f"{name}_default_c"
            text = f"Successfully provisioned volume {name} using {LOCAL_PATH}"
            assert ("c", "Normal", "ProvisioningSucceeded", text) in await events(c)
            _fill(path)
            await claims.delete("c", "default")
            await c.clock.settle()
            with pytest.raises(errors.NotFound):
                await get_volume(c, name)

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


async def test_wait_for_first_consumer_provisions_for_the_selected_node() -> None:
    async with cluster() as c, c.running(NAME):
        claims = c.client.for_kind(PersistentVolumeClaim)
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await c.client.for_kind(ServiceAccount).create(account)
        labels = {"kubernetes.io/hostname": "host-1"}
        await c.client.for_kind(Node).create(Node(metadata=ObjectMeta(name="n1", labels=labels)))
        await c.client.for_kind(StorageClass).create(storage_class("late", volumeBindingMode="WaitForFirstConsumer"))
        await c.client.for_kind(PersistentVolume).create(volume(storageClassName="late"))
        await claims.create(claim(storageClassName="late"))
        await c.clock.settle()
        assert (await get_claim(c)).status.phase == "Pending"
        text = "waiting for first consumer to be created before binding"
        assert ("c", "Normal", "WaitForFirstConsumer", text) in await events(c)
        await c.client.for_kind(Pod).create(pod_using("c", node=""))
        await claims.patch("c", {"metadata": {"labels": {"a": "b"}}}, "default")
        await c.clock.settle()
        assert ("c", "Normal", "WaitForPodScheduled", "waiting for pod p to be scheduled") in await events(c)
        chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
        await claims.patch("c", chosen, "default")
        await c.clock.settle()
        bound = await get_claim(c)
        assert bound.status.phase == "Bound"
        affinity = (await get_volume(c, bound.spec.volumeName)).spec.nodeAffinity
        assert affinity is not None
        assert affinity.required is not None
        terms = affinity.required.nodeSelectorTerms or []
        expressions = [expression for term in terms for expression in term.matchExpressions]
        assert [(expression.key, expression.values) for expression in expressions] == [
            ("kubernetes.io/hostname", ["host-1"])
        ]


async def test_volume_of_an_external_provisioner_is_bound_and_released() -> None:
    async with cluster() as c:
        claims, volumes = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(PersistentVolume)
        async with c.running(*ALL):
            await c.client.for_kind(StorageClass).create(storage_class("csi", "csi.example.com"))
            await claims.create(claim(storageClassName="csi"))
            await c.clock.settle()
            claim_ = await get_claim(c)
            assert claim_.metadata.annotations["volume.kubernetes.io/storage-provisioner"] == "csi.example.com"
            messages = [event[3] for event in await events(c) if event[2] == "ExternalProvisioning"]
            assert messages == [
                "Waiting for a volume to be created either by the external provisioner 'csi.example.com' or "
                "manually by the system administrator. If volume creation is delayed, please verify that the "
                "provisioner is running and correctly registered."
            ]
            manifest = volume("outside", storageClassName="csi", persistentVolumeReclaimPolicy="Delete")
            manifest.metadata.annotations["pv.kubernetes.io/provisioned-by"] = "csi.example.com"
            manifest.spec.claimRef = ObjectReference(namespace="default", name="c", uid=claim_.metadata.uid)
            await volumes.create(manifest)
            await c.clock.settle()
            assert (await get_claim(c)).spec.volumeName == "outside"
            await claims.delete("c", "default")
            await c.clock.settle()
            assert (await get_volume(c, "outside")).status.phase == "Released"
        await check_second_run_writes_nothing(c, *ALL)


async def test_missing_storage_class_and_provisioner_are_reported() -> None:
    async with cluster() as c, c.running(NAME):
        claims = c.client.for_kind(PersistentVolumeClaim)
        await c.client.for_kind(StorageClass).create(storage_class("none", "kubernetes.io/no-provisioner"))
        await claims.create(claim("a", storageClassName="missing"))
        await claims.create(claim("b", storageClassName="none"))
        await c.clock.settle()
        recorded = await events(c)
        text = 'storageclass.storage.k8s.io "missing" not found'
        assert ("a", "Warning", "ProvisioningFailed", text) in recorded
        text = "no volume plugin matched name: kubernetes.io/no-provisioner"
        assert ("b", "Warning", "ProvisioningFailed", text) in recorded
        await c.client.for_kind(StorageClass).create(storage_class("missing"))
        await c.clock.settle()
        assert (await get_claim(c, "a")).status.phase == "Bound"


async def test_claim_without_class_gets_a_default_class_created_later() -> None:
    async with cluster() as c, c.running(NAME):
        claims = c.client.for_kind(PersistentVolumeClaim)
        await claims.create(claim("a"))
        await claims.create(claim("b", storageClassName=""))
        await c.clock.settle()
        await c.client.for_kind(StorageClass).create(storage_class("std", annotations=DEFAULT))
        await c.clock.settle()
        claim_ = await get_claim(c, "a")
        assert (claim_.spec.storageClassName, claim_.status.phase) == ("std", "Bound")
        assert (await get_claim(c, "b")).status.phase == "Pending"


async def test_volume_whose_claim_names_another_volume_becomes_available() -> None:
    async with cluster() as c:
        claims, volumes = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(PersistentVolume)
        stored_claim = await claims.create(claim(volumeName="other", selector=LabelSelector(matchLabels={"x": "y"})))
        manifest = volume()
        manifest.metadata.annotations["pv.kubernetes.io/bound-by-controller"] = "yes"
        ref = ObjectReference(namespace="default", name="c", uid=stored_claim.metadata.uid)
        manifest.spec.claimRef = copy_of(ref)
        await volumes.create(manifest)
        async with c.running(NAME):
            await c.clock.settle()
            volume_ = await get_volume(c)
            assert (volume_.spec.claimRef, volume_.status.phase) == (None, "Available")
