"""ephemeral-volume-controller against a whole API server."""

import pytest

from sampan.api.types.core_v1 import (
    EphemeralVolumeSource,
    Event,
    PersistentVolumeClaim,
    PersistentVolumeClaimTemplate,
    Pod,
    ServiceAccount,
    Volume,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.storage.ephemeral import EphemeralVolumeController, wants_claims
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters, PatchType
from tests.controllers.cluster import check_second_run_writes_nothing, cluster
from tests.controllers.storage.builders import claim, pod_using

NAME = EphemeralVolumeController.name
GARBAGE, PROTECTION = "garbage-collector-controller", "persistentvolumeclaim-protection-controller"


def pod() -> Pod:
    pod = pod_using("")
    template = PersistentVolumeClaimTemplate(metadata=ObjectMeta(labels={"a": "b"}), spec=claim().spec)
    pod.spec.volumes = [Volume(name="data", ephemeral=EphemeralVolumeSource(volumeClaimTemplate=template))]
    return pod


def test_only_live_pods_with_ephemeral_volumes_want_claims() -> None:
    assert wants_claims(pod())
    assert not wants_claims(pod_using("c"))
    deleted = pod()
    deleted.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"
    assert not wants_claims(deleted)


async def test_claim_of_an_ephemeral_volume_is_created_and_deleted_with_its_pod() -> None:
    async with cluster() as c:
        claims, pods = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(Pod)
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await c.client.for_kind(ServiceAccount).create(account)
        async with c.running(NAME, GARBAGE, PROTECTION):
            created_pod = await pods.create(pod())
            await c.clock.settle()
            claim = await claims.get("p-data", "default")
            (owner,) = claim.metadata.ownerReferences
            assert (owner.uid, owner.controller, owner.blockOwnerDeletion) == (created_pod.metadata.uid, True, True)
            assert claim.metadata.labels == {"a": "b"}
            assert claim.spec.accessModes == ["ReadWriteOnce"]
        await check_second_run_writes_nothing(c, NAME)
        async with c.running(NAME, GARBAGE, PROTECTION):
            await pods.delete("p", "default", options=DeleteParameters(grace_period_s=0))
            await c.clock.settle()
            with pytest.raises(errors.NotFound):
                await claims.get("p-data", "default")


async def test_deleted_claim_of_a_live_pod_is_recreated() -> None:
    async with cluster() as c, c.running(NAME):
        claims = c.client.for_kind(PersistentVolumeClaim)
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await c.client.for_kind(ServiceAccount).create(account)
        created_pod = await c.client.for_kind(Pod).create(pod())
        await c.clock.settle()
        first = await claims.get("p-data", "default")
        await claims.delete("p-data", "default")
        await claims.patch("p-data", {"metadata": {"finalizers": None}}, "default", type=PatchType.MERGE)
        await c.clock.settle()
        second = await claims.get("p-data", "default")
        assert second.metadata.uid != first.metadata.uid
        assert [owner.uid for owner in second.metadata.ownerReferences] == [created_pod.metadata.uid]


async def test_existing_claim_that_the_pod_does_not_own_is_reported() -> None:
    async with cluster() as c, c.running(NAME):
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await c.client.for_kind(ServiceAccount).create(account)
        await c.client.for_kind(PersistentVolumeClaim).create(claim("p-data"))
        await c.client.for_kind(Pod).create(pod())
        await c.clock.settle()
        (event,) = (await c.client.for_kind(Event).list()).items
        text = "ephemeral volume data: PVC default/p-data was not created for pod default/p (pod is not owner)"
        assert (event.reason, event.message, event.source.component) == ("FailedBinding", text, "ephemeral_volume")
