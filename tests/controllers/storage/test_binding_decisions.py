"""The volume that binds to a claim, and the decisions about claims and volumes, as tables."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.storage import binding_decisions
from sampan.machinery import volumes
from sampan.machinery.volumes import best_match, class_of_claim, default_of, explain_mismatch, is_bound_to, names_class
from tests.controllers.storage.builders import claim, volume

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"


def available(name: str, size: str = "1Gi", **spec: Any) -> PersistentVolume:
    new_volume = volume(name, size, **spec)
    new_volume.status.phase = "Available"
    return new_volume


def ref(uid: str = "", name: str = "c") -> ObjectReference:
    return ObjectReference(namespace="default", name=name, uid=uid)


def claim_with_uid(uid: str, **spec: Any) -> PersistentVolumeClaim:
    new_claim = claim(**spec)
    new_claim.metadata.uid = uid
    return new_claim


@pytest.mark.parametrize(
    ("volumes", "claim_", "expected"),
    [
        pytest.param(
            [available("a", "2Gi"), available("b", "1Gi"), available("c", "500Mi")],
            claim(),
            "b",
            id="smallest fitting volume",
        ),
        pytest.param([available("a", "500Mi")], claim(), None, id="too small"),
        pytest.param([available("a", accessModes=[ROX])], claim(), None, id="access mode differs"),
        pytest.param(
            [available("a", accessModes=[RWO, RWX]), available("b", "5Gi", accessModes=[RWO])],
            claim(),
            "b",
            id="fewest access modes first",
        ),
        pytest.param([available("a", storageClassName="fast")], claim(), None, id="claim without class"),
        pytest.param([available("a", storageClassName="fast")], claim(storageClassName="fast"), "a", id="same class"),
        pytest.param([available("a", volumeMode="Block")], claim(), None, id="volume mode differs"),
        pytest.param([available("a", volumeMode="Filesystem")], claim(), "a", id="default volume mode"),
        pytest.param([available("a", volumeAttributesClassName="x")], claim(), None, id="attributes class differs"),
        pytest.param(
            [available("a"), available("b", "3Gi", labels={"k": "v"})],
            claim(selector=LabelSelector(matchLabels={"k": "v"})),
            "b",
            id="selector",
        ),
        pytest.param([available("a", claimRef=ref(name="other"))], claim(), None, id="claimRef of another claim"),
        pytest.param([available("a"), available("b", "9Gi", claimRef=ref())], claim(), "b", id="claimRef of the claim"),
        pytest.param([volume("a")], claim(), None, id="not yet available"),
    ],
)
def test_best_match(volumes: list[PersistentVolume], claim_: PersistentVolumeClaim, expected: str | None) -> None:
    volume = best_match(claim_, volumes)
    assert (volume.metadata.name if volume else None) == expected


def test_only_volumes_with_claim_ref_match_while_a_consumer_is_awaited() -> None:
    assert best_match(claim(), [available("a")], only_named=True) is None
    assert best_match(claim(), [available("a"), available("b", claimRef=ref())], only_named=True) is not None


@pytest.mark.parametrize(
    ("volume", "claim_", "expected"),
    [
        (available("a"), claim(), ""),
        (available("a", "1Mi"), claim(), "requested PV is too small"),
        (available("a", storageClassName="x"), claim(), "storageClassName does not match"),
        (available("a", volumeAttributesClassName="x"), claim(), "volumeAttributesClassName does not match"),
        (available("a", volumeMode="Block"), claim(), "incompatible volumeMode"),
        (available("a", accessModes=[ROX]), claim(), "incompatible accessMode"),
    ],
)
def test_mismatch_messages(volume: PersistentVolume, claim_: PersistentVolumeClaim, expected: str) -> None:
    assert explain_mismatch(volume, claim_) == expected


def test_is_bound_to_compares_claim_ref_and_uid() -> None:
    assert is_bound_to(available("a", claimRef=ref()), claim_with_uid("1"))
    assert is_bound_to(available("a", claimRef=ref("1")), claim_with_uid("1"))
    assert not is_bound_to(available("a", claimRef=ref("2")), claim_with_uid("1"))
    assert not is_bound_to(available("a"), claim_with_uid("1"))


def test_decision_about_a_new_claim() -> None:
    default, volume = StorageClass(metadata=ObjectMeta(name="std")), available("a")
    with_class = claim(storageClassName="x")
    assert binding_decisions.on_new_claim(claim(), volume, default, waits=False) == binding_decisions.BindDecision(
        volume
    )
    assert binding_decisions.on_new_claim(claim(), None, default, waits=False) == binding_decisions.AssignClassDecision(
        "std"
    )
    assert (
        binding_decisions.on_new_claim(with_class, None, default, waits=False) == binding_decisions.ProvisionDecision()
    )
    assert binding_decisions.on_new_claim(with_class, None, None, waits=True) == binding_decisions.WaitDecision(
        for_consumer=True
    )
    with_node = claim(storageClassName="x")
    with_node.metadata.annotations["volume.kubernetes.io/selected-node"] = "n"
    assert binding_decisions.on_new_claim(with_node, None, None, waits=True) == binding_decisions.ProvisionDecision()
    nothing = binding_decisions.on_new_claim(claim(storageClassName=""), None, default, waits=False)
    assert isinstance(nothing, binding_decisions.WaitDecision)
    assert nothing.word == binding_decisions.EventText("Normal", "FailedBinding", binding_decisions.NO_VOLUME_MESSAGE)


def test_decision_about_a_claim_with_volume_name() -> None:
    claim_ = claim_with_uid("1", volumeName="a")
    assert binding_decisions.on_naming_claim(claim_, None) == binding_decisions.WaitDecision()
    assert isinstance(binding_decisions.on_naming_claim(claim_, available("a")), binding_decisions.BindDecision)
    assert isinstance(
        binding_decisions.on_naming_claim(claim_, available("a", claimRef=ref("1"))), binding_decisions.BindDecision
    )
    small = binding_decisions.on_naming_claim(claim_, available("a", "1Mi"))
    assert isinstance(small, binding_decisions.WaitDecision)
    assert small.word is not None
    assert small.word.message == 'Cannot bind to requested volume "a": requested PV is too small'
    other = binding_decisions.on_naming_claim(claim_, available("a", claimRef=ref("2")))
    assert isinstance(other, binding_decisions.WaitDecision)
    assert other.word is not None
    assert other.word.message == 'volume "a" already bound to a different claim.'


def test_decision_about_a_bound_claim() -> None:
    claim_ = claim_with_uid("1", volumeName="a")
    decisions = [
        binding_decisions.on_bound_claim(claim_with_uid("1"), None),
        binding_decisions.on_bound_claim(claim_, None),
        binding_decisions.on_bound_claim(claim_, available("a", claimRef=ref("2"))),
    ]
    assert [decision.word.reason for decision in decisions if isinstance(decision, binding_decisions.LoseDecision)] == [
        "ClaimLost",
        "ClaimLost",
        "ClaimMisbound",
    ]
    assert isinstance(
        binding_decisions.on_bound_claim(claim_, available("a", claimRef=ref("1"))), binding_decisions.BindDecision
    )


@pytest.mark.parametrize(
    ("volume", "owner", "expected"),
    [
        (available("a"), None, binding_decisions.OfferDecision()),
        (available("a", claimRef=ref()), None, binding_decisions.OfferDecision()),
        (available("a", claimRef=ref("1")), None, binding_decisions.ReclaimDecision()),
        (available("a", claimRef=ref("1")), claim(), binding_decisions.SyncClaimDecision()),
        (
            available("a", claimRef=ref("1"), volumeMode="Block"),
            claim(),
            binding_decisions.SyncClaimDecision(mismatch=True),
        ),
        (available("a", claimRef=ref("1")), claim(volumeName="a"), binding_decisions.KeepDecision()),
        (available("a", claimRef=ref("1")), claim(volumeName="b"), binding_decisions.UnbindDecision()),
    ],
)
def test_decision_about_a_volume(volume: PersistentVolume, owner: PersistentVolumeClaim | None, expected: Any) -> None:
    assert binding_decisions.on_volume(volume, owner) == expected


def test_provisioned_volume_of_a_claim_bound_elsewhere_is_reclaimed() -> None:
    volume = available("a", claimRef=ref("1"), persistentVolumeReclaimPolicy="Delete")
    volume.metadata.annotations["pv.kubernetes.io/provisioned-by"] = "x"
    assert binding_decisions.on_volume(volume, claim(volumeName="b")) == binding_decisions.ReclaimDecision()


def test_changes_of_volumes_and_claims_when_they_are_bound() -> None:
    claim_, volume = claim_with_uid("1"), available("a")
    bound = volumes.bind_volume(volume, claim_)
    assert bound is not None
    assert bound.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert volumes.bind_volume(bound, claim_) is None
    assert volumes.unbind_volume(bound).spec.claimRef is None
    named = volumes.bind_volume(available("a", claimRef=ref()), claim_)
    assert named is not None
    assert named.metadata.annotations == {}
    kept = volumes.unbind_volume(named).spec.claimRef
    assert kept is not None
    assert (kept.name, kept.uid) == ("c", "")
    changed = volumes.bind_claim(claim_, volume)
    assert changed is not None
    assert changed.spec.volumeName == "a"
    assert set(changed.metadata.annotations) == {
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/bind-completed",
    }
    assert volumes.bind_claim(changed, volume) is None
    claim = volumes.set_claim_phase(changed, "Bound", available("a", "3Gi", accessModes=[RWO, ROX]))
    assert claim is not None
    assert (claim.status.capacity, claim.status.accessModes) == ({"storage": "3Gi"}, [RWO, ROX])
    lost = volumes.set_claim_phase(claim, "Lost", None)
    assert lost is not None
    assert (lost.status.capacity, lost.status.accessModes) == ({}, [])


def test_default_storage_class_and_class_of_a_claim() -> None:
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
    annotated = claim()
    annotated.metadata.annotations["volume.beta.kubernetes.io/storage-class"] = "x"
    assert class_of_claim(annotated) == "x"
    assert [names_class(claim) for claim in (claim(), claim(storageClassName=""), annotated)] == [False, True, True]
