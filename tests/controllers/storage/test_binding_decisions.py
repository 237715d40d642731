"""The volume that binds to a claim, and the decisions about claims and volumes, as tables."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.storage import binding_decisions
from sampan.machinery import volumes
from sampan.machinery.volumes import best_match, class_of_claim, default_of, is_bound_to, names_class, why_not
from tests.controllers.storage.builders import claim, volume

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"


def free(name: str, size: str = "1Gi", **spec: Any) -> PersistentVolume:
    new_volume = volume(name, size, **spec)
    new_volume.status.phase = "Available"
    return new_volume


def ref(uid: str = "", name: str = "c") -> ObjectReference:
    return ObjectReference(namespace="default", name=name, uid=uid)


def of_uid(uid: str, **spec: Any) -> PersistentVolumeClaim:
    new_claim = claim(**spec)
    new_claim.metadata.uid = uid
    return new_claim


@pytest.mark.parametrize(
    ("volumes", "desired_volumes", "expected"),
    [
        pytest.param(
            [free("a", "2Gi"), free("b", "1Gi"), free("c", "500Mi")], claim(), "b", id="the smallest that fits"
        ),
        pytest.param([free("a", "500Mi")], claim(), None, id="too small"),
        pytest.param([free("a", accessModes=[ROX])], claim(), None, id="other access"),
        pytest.param(
            [free("a", accessModes=[RWO, RWX]), free("b", "5Gi", accessModes=[RWO])],
            claim(),
            "b",
            id="fewest modes first",
        ),
        pytest.param([free("a", storageClassName="fast")], claim(), None, id="a class nobody asked for"),
        pytest.param([free("a", storageClassName="fast")], claim(storageClassName="fast"), "a", id="the class"),
        pytest.param([free("a", volumeMode="Block")], claim(), None, id="other mode"),
        pytest.param([free("a", volumeMode="Filesystem")], claim(), "a", id="the mode that is meant if none is said"),
        pytest.param([free("a", volumeAttributesClassName="x")], claim(), None, id="other attributes"),
        pytest.param(
            [free("a"), free("b", "3Gi", labels={"k": "v"})],
            claim(selector=LabelSelector(matchLabels={"k": "v"})),
            "b",
            id="by labels",
        ),
        pytest.param([free("a", claimRef=ref(name="other"))], claim(), None, id="named for another"),
        pytest.param([free("a"), free("b", "9Gi", claimRef=ref())], claim(), "b", id="named for it"),
        pytest.param([volume("a")], claim(), None, id="not yet available"),
    ],
)
def test_the_best(
    volumes: list[PersistentVolume], desired_volumes: PersistentVolumeClaim, expected: str | None
) -> None:
    volume = best_match(desired_volumes, volumes)
    assert (volume.metadata.name if volume else None) == expected


def test_while_a_consumer_is_awaited_only_volumes_that_name_the_claim_count() -> None:
    assert best_match(claim(), [free("a")], only_named=True) is None
    assert best_match(claim(), [free("a"), free("b", claimRef=ref())], only_named=True) is not None


@pytest.mark.parametrize(
    ("volume", "desired_volumes", "expected"),
    [
        (free("a"), claim(), ""),
        (free("a", "1Mi"), claim(), "requested PV is too small"),
        (free("a", storageClassName="x"), claim(), "storageClassName does not match"),
        (free("a", volumeAttributesClassName="x"), claim(), "volumeAttributesClassName does not match"),
        (free("a", volumeMode="Block"), claim(), "incompatible volumeMode"),
        (free("a", accessModes=[ROX]), claim(), "incompatible accessMode"),
    ],
)
def test_why_not(volume: PersistentVolume, desired_volumes: PersistentVolumeClaim, expected: str) -> None:
    assert why_not(volume, desired_volumes) == expected


def test_whose_a_volume_is() -> None:
    assert is_bound_to(free("a", claimRef=ref()), of_uid("1"))
    assert is_bound_to(free("a", claimRef=ref("1")), of_uid("1"))
    assert not is_bound_to(free("a", claimRef=ref("2")), of_uid("1"))
    assert not is_bound_to(free("a"), of_uid("1"))


def test_new_claims() -> None:
    default, volume = StorageClass(metadata=ObjectMeta(name="std")), free("a")
    with_class = claim(storageClassName="x")
    assert binding_decisions.on_new_claim(claim(), volume, default, waits=False) == binding_decisions.BindClaim(volume)
    assert binding_decisions.on_new_claim(claim(), None, default, waits=False) == binding_decisions.TakeClass("std")
    assert binding_decisions.on_new_claim(with_class, None, default, waits=False) == binding_decisions.Provision()
    assert binding_decisions.on_new_claim(with_class, None, None, waits=True) == binding_decisions.Wait(
        for_consumer=True
    )
    with_node = claim(storageClassName="x")
    with_node.metadata.annotations["volume.kubernetes.io/selected-node"] = "n"
    assert binding_decisions.on_new_claim(with_node, None, None, waits=True) == binding_decisions.Provision()
    nothing = binding_decisions.on_new_claim(claim(storageClassName=""), None, default, waits=False)
    assert isinstance(nothing, binding_decisions.Wait)
    assert nothing.word == binding_decisions.EventText("Normal", "FailedBinding", binding_decisions.NOTHING_SUITS)


def test_claims_that_name_a_volume() -> None:
    desired_volumes = of_uid("1", volumeName="a")
    assert binding_decisions.on_naming_claim(desired_volumes, None) == binding_decisions.Wait()
    assert isinstance(binding_decisions.on_naming_claim(desired_volumes, free("a")), binding_decisions.BindClaim)
    assert isinstance(
        binding_decisions.on_naming_claim(desired_volumes, free("a", claimRef=ref("1"))), binding_decisions.BindClaim
    )
    small = binding_decisions.on_naming_claim(desired_volumes, free("a", "1Mi"))
    assert isinstance(small, binding_decisions.Wait)
    assert small.word is not None
    assert small.word.message == 'Cannot bind to requested volume "a": requested PV is too small'
    other = binding_decisions.on_naming_claim(desired_volumes, free("a", claimRef=ref("2")))
    assert isinstance(other, binding_decisions.Wait)
    assert other.word is not None
    assert other.word.message == 'volume "a" already bound to a different claim.'


def test_claims_that_were_bound() -> None:
    desired_volumes = of_uid("1", volumeName="a")
    words = [
        binding_decisions.on_bound_claim(of_uid("1"), None),
        binding_decisions.on_bound_claim(desired_volumes, None),
        binding_decisions.on_bound_claim(desired_volumes, free("a", claimRef=ref("2"))),
    ]
    assert [word.word.reason for word in words if isinstance(word, binding_decisions.Lose)] == [
        "ClaimLost",
        "ClaimLost",
        "ClaimMisbound",
    ]
    assert isinstance(
        binding_decisions.on_bound_claim(desired_volumes, free("a", claimRef=ref("1"))), binding_decisions.BindClaim
    )


@pytest.mark.parametrize(
    ("volume", "owner", "expected"),
    [
        (free("a"), None, binding_decisions.Offer()),
        (free("a", claimRef=ref()), None, binding_decisions.Offer()),
        (free("a", claimRef=ref("1")), None, binding_decisions.Reclaim()),
        (free("a", claimRef=ref("1")), claim(), binding_decisions.LookAtClaim()),
        (free("a", claimRef=ref("1"), volumeMode="Block"), claim(), binding_decisions.LookAtClaim(mismatch=True)),
        (free("a", claimRef=ref("1")), claim(volumeName="a"), binding_decisions.Keep()),
        (free("a", claimRef=ref("1")), claim(volumeName="b"), binding_decisions.Unbind()),
    ],
)
def test_volumes(volume: PersistentVolume, owner: PersistentVolumeClaim | None, expected: Any) -> None:
    assert binding_decisions.on_volume(volume, owner) == expected


def test_a_volume_made_for_a_claim_that_has_another_goes() -> None:
    volume = free("a", claimRef=ref("1"), persistentVolumeReclaimPolicy="Delete")
    volume.metadata.annotations["pv.kubernetes.io/provisioned-by"] = "x"
    assert binding_decisions.on_volume(volume, claim(volumeName="b")) == binding_decisions.Reclaim()


def test_changes() -> None:
    desired_volumes, volume = of_uid("1"), free("a")
    bound = volumes.volume_bound(volume, desired_volumes)
    assert bound is not None
    assert bound.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert volumes.volume_bound(bound, desired_volumes) is None
    assert volumes.volume_unbound(bound).spec.claimRef is None
    named = volumes.volume_bound(free("a", claimRef=ref()), desired_volumes)
    assert named is not None
    assert named.metadata.annotations == {}
    kept = volumes.volume_unbound(named).spec.claimRef
    assert kept is not None
    assert (kept.name, kept.uid) == ("c", "")
    changed = volumes.claim_bound(desired_volumes, volume)
    assert changed is not None
    assert changed.spec.volumeName == "a"
    assert set(changed.metadata.annotations) == {
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/bind-completed",
    }
    assert volumes.claim_bound(changed, volume) is None
    claim = volumes.claim_in(changed, "Bound", free("a", "3Gi", accessModes=[RWO, ROX]))
    assert claim is not None
    assert (claim.status.capacity, claim.status.accessModes) == ({"storage": "3Gi"}, [RWO, ROX])
    lost = volumes.claim_in(claim, "Lost", None)
    assert lost is not None
    assert (lost.status.capacity, lost.status.accessModes) == ({}, [])


def test_classes() -> None:
    old, new, other = (StorageClass(metadata=ObjectMeta(name=name)) for name in ("old", "new", "other"))
    for storage_class, when in (
        (old, "2026-01-01T00:00:00Z"),
        (new, "2026-02-01T00:00:00Z"),
        (other, "2026-03-01T00:00:00Z"),
    ):
        storage_class.metadata.creationTimestamp = when
    for storage_class in (old, new):
        storage_class.metadata.annotations["storageclass.kubernetes.io/is-default-class"] = "true"
    assert default_of([old, new, other]) is new
    assert default_of([other]) is None
    by_note = claim()
    by_note.metadata.annotations["volume.beta.kubernetes.io/storage-class"] = "x"
    assert class_of_claim(by_note) == "x"
    assert [names_class(claim) for claim in (claim(), claim(storageClassName=""), by_note)] == [False, True, True]
