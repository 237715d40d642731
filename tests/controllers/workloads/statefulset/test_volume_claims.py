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
from tests.controllers.workloads.hand_driven_pods import NAMESPACE, Stage
from tests.controllers.workloads.statefulset.objects import member, stateful_set
from tests.controllers.workloads.statefulset.statefulset_cluster import Scene

OTHERS = ("garbage-collector-controller", "persistentvolumeclaim-protection-controller")


def played(play: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with pod_cluster() as c, c.running(StatefulSetController.name, *OTHERS):
            await play(Scene(c, Stage(c)))

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
    async def play(s: Scene) -> None:
        await s.create(2, claims=["data"], retention=retention)
        await s.stage.play()
        await s.cluster.client.of(StatefulSet).delete("web", NAMESPACE)
        await s.stage.play()
        await s.cluster.clock.advance(10)
        assert await s.stage.pods() == {}
        assert sorted(await s.claims()) == expected

    played(play)


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
    async def play(s: Scene) -> None:
        await s.create(2, claims=["data"], retention=retention)
        await s.stage.play()
        before = (await s.claims())["data-web-1"].metadata.uid
        await s.patch({"replicas": 1})
        await s.stage.play()
        await s.cluster.clock.advance(10)
        assert sorted(await s.claims()) == expected
        await s.patch({"replicas": 2})
        await s.stage.play()
        await s.cluster.clock.advance(10)
        claims = await s.claims()
        assert sorted(claims) == ["data-web-0", "data-web-1"]
        assert (claims["data-web-1"].metadata.uid == before) is (len(expected) == 2)

    played(play)


async def test_a_claim_with_another_controller_is_not_changed() -> None:
    async def play(s: Scene) -> None:
        await s.create(1, claims=["data"])
        await s.stage.play()
        claims = s.cluster.client.of(PersistentVolumeClaim)
        owner = {**reference("strange-uid", "other"), "kind": "Deployment"}
        await claims.patch("data-web-0", {"metadata": {"ownerReferences": [owner]}}, NAMESPACE, type=PatchType.MERGE)
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        await s.patch({"persistentVolumeClaimRetentionPolicy": policy})
        claim = (await s.claims())["data-web-0"]
        assert [reference.name for reference in claim.metadata.ownerReferences] == ["other"]

    async with pod_cluster() as c, c.running(StatefulSetController.name):
        await play(Scene(c, Stage(c)))


@pytest.mark.parametrize("when_deleted", ["Retain", "Delete"])
@pytest.mark.parametrize("when_scaled", ["Retain", "Delete"])
@pytest.mark.parametrize("ordinal", [0, 1], ids=["kept", "condemned"])
def test_owners_that_are_set_are_right(when_deleted: str, when_scaled: str, ordinal: int) -> None:
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
    weak = with_owners(claim, sset, pod)
    for owner in weak.metadata.ownerReferences:
        owner.controller = None
    assert has_right_owners(weak, sset, pod) is (not expected), "an owner that does not manage it is not enough"
    stale = with_owners(claim, sset, pod)
    for owner in stale.metadata.ownerReferences:
        owner.uid = "earlier"
    assert has_right_owners(stale, sset, pod), "what an earlier one left is left alone"
