"""The three protection controllers: what counts as use, and the removal of finalizers when it ends."""

import time
from dataclasses import replace
from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import (
    EphemeralVolumeSource,
    Namespace,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    ServiceAccount,
    Volume,
)
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.storage_v1 import VolumeAttributesClass
from sampan.controllers.storage.protection import (
    CLAIM_FINALIZER,
    ClaimProtectionController,
    ClassProtectionController,
    VolumeProtectionController,
    find_used_claims,
    is_deletion_candidate,
    needs_finalizer,
    needs_finalizer_change,
)
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters
from sampan.machinery.client.client import ResourceClient
from tests.controllers.cluster import CONFIG, Cluster, check_second_run_writes_nothing, cluster
from tests.controllers.storage.builders import claim, pod_using, volume
from tests.input_cost import is_cpu_time_within

NOW = "2026-01-01T00:00:00Z"
AT_ONCE = DeleteParameters(grace_period_s=0)


def ephemeral_pod(uid: str, *, is_shut_down: bool = False) -> Pod:
    pod = pod_using("")
    pod.metadata.uid = uid
    pod.spec.volumes = [Volume(name="data", ephemeral=EphemeralVolumeSource())]
    if is_shut_down:
        pod.metadata.deletionTimestamp, pod.metadata.deletionGracePeriodSeconds = NOW, 0
    return pod


def ephemeral_claim(owner: str) -> PersistentVolumeClaim:
    new_claim = claim("p-data")
    new_claim.metadata.ownerReferences = [
        OwnerReference(uid=owner, controller=True, name="p", kind="Pod", apiVersion="v1")
    ]
    return new_claim


@pytest.mark.parametrize(
    ("pod", "held", "expected"),
    [
        pytest.param(pod_using("c"), claim(), True, id="uses the claim"),
        pytest.param(pod_using("other"), claim(), False, id="uses another claim"),
        pytest.param(pod_using("c", node=""), claim(), False, id="unscheduled pod"),
        pytest.param(ephemeral_pod("1"), ephemeral_claim("1"), True, id="ephemeral claim of the pod"),
        pytest.param(ephemeral_pod("1"), ephemeral_claim("2"), False, id="ephemeral claim of another pod"),
        pytest.param(
            ephemeral_pod("1", is_shut_down=True), ephemeral_claim("1"), False, id="ephemeral claim, pod shut down"
        ),
    ],
)
async def test_pod_uses_claim(pod: Pod, held: PersistentVolumeClaim, expected: bool) -> None:
    assert bool(await find_used_claims([pod], [held])) is expected


async def test_cost_of_pods_that_use_all_claims_is_not_a_product() -> None:
    names = [f"c{number}" for number in range(1_000)]
    pods = [pod_using("") for _ in range(30)]
    for user in pods:
        source = PersistentVolumeClaimVolumeSource
        user.spec.volumes = [Volume(name=name, persistentVolumeClaim=source(claimName=name)) for name in names]
    claims = [claim(name) for name in names]
    start = time.thread_time()
    assert await find_used_claims(pods, claims) == set(names)
    spent_s = time.thread_time() - start
    assert is_cpu_time_within(spent_s, 1.0)  # each claim with each volume takes ten seconds


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("has_finalizer", [False, True])
def test_finalizer_is_added_or_removed_by_deletion_state(is_deleted: bool, has_finalizer: bool) -> None:
    new_claim = claim()
    new_claim.metadata.deletionTimestamp = NOW if is_deleted else None
    new_claim.metadata.finalizers = ["a", *([CLAIM_FINALIZER] if has_finalizer else [])]
    assert is_deletion_candidate(new_claim, CLAIM_FINALIZER) is (is_deleted and has_finalizer)
    assert needs_finalizer(new_claim, CLAIM_FINALIZER) is (not is_deleted and not has_finalizer)
    assert needs_finalizer_change(new_claim, CLAIM_FINALIZER) is (is_deleted == has_finalizer)


async def is_gone(objects: ResourceClient[Any], name: str, namespace: str = "") -> bool:
    try:
        await objects.get(name, namespace)
    except errors.NotFound:
        return True
    return False


UNUSED_GATE = "PersistentVolumeClaimUnusedSinceTime"
USAGE = replace(CONFIG, feature_gates=FeatureGates(level=37))
NO_USAGE = replace(CONFIG, feature_gates=FeatureGates({UNUSED_GATE: False}, level=37))


async def create_account(c: Cluster) -> None:
    await c.client.for_kind(ServiceAccount).create(
        ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
    )


async def test_deleted_claim_is_removed_once_no_pod_uses_it() -> None:
    async with cluster() as c:
        claims, pods = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(Pod)
        await create_account(c)
        for name in ("free", "used"):
            assert CLAIM_FINALIZER in (await claims.create(claim(name))).metadata.finalizers
        await pods.create(pod_using("used"))
        async with c.running(ClaimProtectionController.name):
            await claims.delete("free", "default")
            await claims.delete("used", "default")
            await c.clock.settle()
            assert await is_gone(claims, "free", "default")
            assert not await is_gone(claims, "used", "default")
            await pods.delete("p", "default", options=AT_ONCE)
            await c.clock.settle()
            assert await is_gone(claims, "used", "default")
        await check_second_run_writes_nothing(c, ClaimProtectionController.name)


async def test_missing_finalizer_is_added_to_a_claim() -> None:
    async with cluster() as c:
        claims = c.client.for_kind(PersistentVolumeClaim)
        await claims.create(claim())
        await claims.patch(
            "c", {"metadata": {"finalizers": [], "$deleteFromPrimitiveList/finalizers": [CLAIM_FINALIZER]}}, "default"
        )
        assert (await claims.get("c", "default")).metadata.finalizers == []
        async with c.running(ClaimProtectionController.name):
            await c.clock.settle()
        assert (await claims.get("c", "default")).metadata.finalizers == [CLAIM_FINALIZER]


async def test_deleted_volume_is_removed_once_it_is_not_bound() -> None:
    async with cluster() as c:
        volumes = c.client.for_kind(PersistentVolume)
        await volumes.create(volume("free"))
        bound = await volumes.create(volume("bound", claimRef=ObjectReference(name="c", namespace="default")))
        await volumes.patch("bound", {"status": {"phase": "Bound"}}, subresource="status")
        async with c.running(VolumeProtectionController.name):
            for name in ("free", bound.metadata.name):
                await volumes.delete(name)
            await c.clock.settle()
            assert await is_gone(volumes, "free")
            assert not await is_gone(volumes, "bound")
            await volumes.patch("bound", {"status": {"phase": "Released"}}, subresource="status")
            await c.clock.settle()
            assert await is_gone(volumes, "bound")
        await check_second_run_writes_nothing(c, VolumeProtectionController.name)


async def test_deleted_volume_attributes_class_is_removed_once_unused() -> None:
    async with cluster() as c:
        classes, claims = c.client.for_kind(VolumeAttributesClass), c.client.for_kind(PersistentVolumeClaim)
        for name in ("free", "named"):
            attributes_class = VolumeAttributesClass(
                metadata=ObjectMeta(name=name), driverName="d", parameters={"a": "b"}
            )
            await classes.create(attributes_class)
        await claims.create(claim(volumeAttributesClassName="named"))
        async with c.running(ClassProtectionController.name, ClaimProtectionController.name):
            for name in ("free", "named"):
                await classes.delete(name)
            await c.clock.settle()
            assert await is_gone(classes, "free")
            assert not await is_gone(classes, "named")
            await claims.delete("c", "default")
            await c.clock.settle()
            assert await is_gone(classes, "named")
        await check_second_run_writes_nothing(c, ClassProtectionController.name)


async def test_namespace_with_a_protected_claim_is_deleted() -> None:
    async with cluster() as c:
        namespaces = c.client.for_kind(Namespace)
        await namespaces.create(Namespace(metadata=ObjectMeta(name="n")))
        await c.client.for_kind(PersistentVolumeClaim).create(claim(namespace="n"))
        async with c.running("namespace-controller", ClaimProtectionController.name):
            await namespaces.delete("n")
            await c.clock.advance(1)
            assert await is_gone(namespaces, "n")


async def test_bound_claim_tells_whether_a_pod_uses_it() -> None:
    async with cluster() as c:
        claims, pods = c.client.for_kind(PersistentVolumeClaim), c.client.for_kind(Pod)
        await create_account(c)

        async def usage(name: str) -> list[tuple[str, str, str]]:
            await c.clock.settle()
            conditions = (await claims.get(name, "default")).status.conditions
            return [(condition.type, condition.status, condition.reason) for condition in conditions]

        for name in ("bound", "pending"):
            await claims.create(claim(name))
        await claims.patch("bound", {"status": {"phase": "Bound"}}, "default", subresource="status")
        async with c.running(ClaimProtectionController.name, config=USAGE):
            assert await usage("bound") == [("Unused", "True", "NoPodsUsingPVC")]
            assert await usage("pending") == []
            await pods.create(pod_using("bound"))
            assert await usage("bound") == [("Unused", "False", "PodUsingPVC")]
            await pods.patch("p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
            assert await usage("bound") == [("Unused", "True", "NoPodsUsingPVC")]
        await check_second_run_writes_nothing(c, ClaimProtectionController.name)
        await claims.create(claim("quiet"))
        await claims.patch("quiet", {"status": {"phase": "Bound"}}, "default", subresource="status")
        async with c.running(ClaimProtectionController.name, config=NO_USAGE):
            assert await usage("quiet") == []
