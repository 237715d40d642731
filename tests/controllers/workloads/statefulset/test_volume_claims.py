"""Retention of the persistent volume claims of a StatefulSet, carried out by the garbage collector."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import PersistentVolumeClaim
from sampan.controllers.workloads.statefulset.controller import StatefulSetController
from sampan.controllers.workloads.statefulset.volume_claims import has_right_owners, new_claims, with_owners
from sampan.machinery.client import PatchType
from tests.controllers.ownership.objects import reference
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, FakeKubelet
from tests.controllers.workloads.statefulset.objects import member, stateful_set
from tests.controllers.workloads.statefulset.statefulset_cluster import StatefulSetCluster

CLAIM_CONTROLLERS = ("garbage-collector-controller", "persistentvolumeclaim-protection-controller")


def run_scenario(scenario: Callable[[StatefulSetCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with pod_cluster() as c, c.running(StatefulSetController.name, *CLAIM_CONTROLLERS):
            await scenario(StatefulSetCluster(c, FakeKubelet(c)))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (("Retain", "Retain"), ["data-web-0", "data-web-1"]),
        (("Delete", "Retain"), []),
        (("Retain", "Delete"), ["data-web-0", "data-web-1"]),
        (("Delete", "Delete"), []),
    ],
    ids="-".join,
)
def test_claims_that_remain_when_the_set_is_deleted(retention: tuple[str, str], expected: list[str]) -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2, claims=["data"], retention=retention)
        await s.kubelet.run_all()
        await s.cluster.client.for_kind(StatefulSet).delete("web", NAMESPACE)
        await s.kubelet.run_all()
        await s.cluster.clock.advance(10)
        assert await s.kubelet.pods() == {}
        assert sorted(await s.claims()) == expected

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (("Retain", "Retain"), ["data-web-0", "data-web-1"]),
        (("Delete", "Retain"), ["data-web-0", "data-web-1"]),
        (("Retain", "Delete"), ["data-web-0"]),
        (("Delete", "Delete"), ["data-web-0"]),
    ],
    ids="-".join,
)
def test_claims_that_remain_when_the_set_is_scaled_down(retention: tuple[str, str], expected: list[str]) -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(2, claims=["data"], retention=retention)
        await s.kubelet.run_all()
        before = (await s.claims())["data-web-1"].metadata.uid
        await s.patch({"replicas": 1})
        await s.kubelet.run_all()
        await s.cluster.clock.advance(10)
        assert sorted(await s.claims()) == expected
        await s.patch({"replicas": 2})
        await s.kubelet.run_all()
        await s.cluster.clock.advance(10)
        claims = await s.claims()
        assert sorted(claims) == ["data-web-0", "data-web-1"]
        assert (claims["data-web-1"].metadata.uid == before) is (len(expected) == 2)

    run_scenario(scenario)


async def test_a_claim_with_another_controller_is_not_changed() -> None:
    async def scenario(s: StatefulSetCluster) -> None:
        await s.create(1, claims=["data"])
        await s.kubelet.run_all()
        claims = s.cluster.client.for_kind(PersistentVolumeClaim)
        owner = {**reference("strange-uid", "other"), "kind": "Deployment"}
        await claims.patch("data-web-0", {"metadata": {"ownerReferences": [owner]}}, NAMESPACE, type=PatchType.MERGE)
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        await s.patch({"persistentVolumeClaimRetentionPolicy": policy})
        claim = (await s.claims())["data-web-0"]
        assert [reference.name for reference in claim.metadata.ownerReferences] == ["other"]

    async with pod_cluster() as c, c.running(StatefulSetController.name):
        await scenario(StatefulSetCluster(c, FakeKubelet(c)))


@pytest.mark.parametrize("when_deleted", ["Retain", "Delete"])
@pytest.mark.parametrize("when_scaled", ["Retain", "Delete"])
@pytest.mark.parametrize("ordinal", [0, 1], ids=["kept", "condemned"])
def test_owner_references_of_claims_by_retention_policy(when_deleted: str, when_scaled: str, ordinal: int) -> None:
    sset = stateful_set(1, claims=["data"], retention=(when_deleted, when_scaled), uid="set-uid")
    pod = member(sset, ordinal)
    (claim,) = new_claims(sset, pod)
    assert has_right_owners(claim, sset, pod)
    kinds: dict[tuple[str, str], list[list[str]]] = {
        ("Retain", "Retain"): [[], []],
        ("Delete", "Retain"): [["StatefulSet"], ["StatefulSet"]],
        ("Retain", "Delete"): [[], ["Pod"]],
        ("Delete", "Delete"): [["StatefulSet"], ["Pod"]],
    }
    expected = kinds[when_deleted, when_scaled][ordinal]
    assert [owner.kind for owner in claim.metadata.ownerReferences] == expected
    uncontrolled = with_owners(claim, sset, pod)
    for owner in uncontrolled.metadata.ownerReferences:
        owner.controller = None
    assert has_right_owners(uncontrolled, sset, pod) is (not expected), (
        "an owner reference without controller is not enough"
    )
    stale = with_owners(claim, sset, pod)
    for owner in stale.metadata.ownerReferences:
        owner.uid = "earlier"
    assert has_right_owners(stale, sset, pod), "owner references to an earlier object are kept"
