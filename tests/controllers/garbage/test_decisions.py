"""Decisions of the garbage collector about an object whose owners are known."""

from collections.abc import Sequence

import pytest

from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.controllers.garbage.decisions import (
    ClassifiedOwners,
    DeletionPropagation,
    GarbageDecision,
    ObjectDeletion,
    ReferenceRemoval,
    decide,
    remove_finalizer_patch,
    remove_owners_merge_patch,
    remove_owners_patch,
    unblock_merge_patch,
    unblock_patch,
)
from sampan.controllers.garbage.ownership import OWNERSHIP, OwnedObject, OwnerRef, OwnershipMetadata


def ref(uid: str, blocks: bool | None = None) -> OwnerRef:
    return OwnerRef("v1", "ConfigMap", uid, uid, blocks)


def owned_object(refs: Sequence[OwnerRef], *finalizers: str) -> OwnedObject:
    return OwnedObject(
        OwnershipMetadata(name="o", uid="u", resourceVersion="7", ownerReferences=tuple(refs), finalizers=finalizers)
    )


@pytest.mark.parametrize(
    ("solid", "absent", "waiting", "dependents", "expected"),
    [
        pytest.param("", "", "", False, None, id="no owners"),
        pytest.param("s", "", "", True, None, id="existing owner"),
        pytest.param("s", "a", "", False, ReferenceRemoval(["a"]), id="existing and absent owner"),
        pytest.param("s", "a", "w", False, ReferenceRemoval(["a", "w"]), id="existing, absent and waiting owner"),
        pytest.param("", "a", "", True, ObjectDeletion(DeletionPropagation.BACKGROUND), id="absent owner"),
        pytest.param(
            "", "a", "w", False, ObjectDeletion(DeletionPropagation.BACKGROUND), id="absent and waiting owner"
        ),
        pytest.param(
            "", "", "w", True, ObjectDeletion(DeletionPropagation.FOREGROUND), id="waiting owner, with dependents"
        ),
    ],
)
def test_decision_by_state_of_owners(
    solid: str, absent: str, waiting: str, dependents: bool, expected: GarbageDecision
) -> None:
    owners = ClassifiedOwners([ref(u) for u in solid], [ref(u) for u in absent], [ref(u) for u in waiting])
    obj = owned_object([*owners.solid, *owners.absent, *owners.waiting])
    assert decide(obj, owners, has_dependents=dependents, dependent_waits=False) == expected


def test_object_in_an_ownership_cycle_is_unblocked() -> None:
    decision = decide(
        owned_object([ref("w")]), ClassifiedOwners(waiting=[ref("w")]), has_dependents=True, dependent_waits=True
    )
    assert decision == ObjectDeletion(DeletionPropagation.FOREGROUND, unblocks=True)


@pytest.mark.parametrize(
    ("finalizers", "expected"),
    [
        (("x/y",), DeletionPropagation.BACKGROUND),
        (("foregroundDeletion",), DeletionPropagation.FOREGROUND),
        (("orphan", "foregroundDeletion"), DeletionPropagation.ORPHAN),
    ],
)
def test_existing_finalizers_decide_the_propagation_policy(
    finalizers: tuple[str, ...], expected: DeletionPropagation
) -> None:
    obj = owned_object([ref("a")], *finalizers)
    assert decide(
        obj, ClassifiedOwners(absent=[ref("a")]), has_dependents=False, dependent_waits=False
    ) == ObjectDeletion(expected)


def test_patches_of_owner_references_and_finalizers() -> None:
    assert remove_owners_patch("u", ["a", "b"]) == {
        "metadata": {
            "ownerReferences": [{"$patch": "delete", "uid": "a"}, {"$patch": "delete", "uid": "b"}],
            "uid": "u",
        }
    }
    first, second = OwnerReference(uid="a", blockOwnerDeletion=True, controller=True), OwnerReference(uid="b")
    meta = ObjectMeta(resourceVersion="7", ownerReferences=[first, second])
    assert remove_owners_merge_patch(meta, ["a"]) == {"metadata": {"resourceVersion": "7", "ownerReferences": [second]}}
    assert remove_owners_merge_patch(meta, ["a", "b"]) == {
        "metadata": {"resourceVersion": "7", "ownerReferences": None}
    }
    (reference,) = unblock_patch("u", [ref("a", True), ref("b")])["metadata"]["ownerReferences"]
    assert (reference["uid"], reference["blockOwnerDeletion"]) == ("a", False)
    refs = unblock_merge_patch(meta)["metadata"]["ownerReferences"]
    assert [(ref.controller, ref.blockOwnerDeletion) for ref in refs] == [(True, False), (None, False)]
    assert remove_finalizer_patch(owned_object([], "a", "b"), "a") == {
        "metadata": {"resourceVersion": "7", "finalizers": ["b"]}
    }
    assert remove_finalizer_patch(owned_object([], "a"), "a") == {
        "metadata": {"resourceVersion": "7", "finalizers": None}
    }


def test_only_ownership_metadata_is_decoded() -> None:
    raw = b'{"kind":"X","metadata":{"name":"n","uid":"u","annotations":{"a":"b"},"managedFields":[{"x":1}],'
    raw += b'"ownerReferences":[{"uid":"o","name":"p","controller":true}]},"spec":{"deep":[1,{"a":2}]}}'
    owned = OWNERSHIP.decode(raw)
    assert owned.owners == (OwnerRef(name="p", uid="o"),)
    assert not owned.is_deleted
    bookmark = OWNERSHIP.decode(b'{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}')
    assert "k8s.io/initial-events-end" in bookmark.metadata.annotations
    assert "k8s.io/initial-events-end" not in owned.metadata.annotations
