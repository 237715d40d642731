"""The decision about an object, given the state of its owners, and the patches that carry it out. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from sampan.controllers.garbage.ownership import FOREGROUND, ORPHAN, OwnedObject, OwnerRef


class DeletionPropagation(Enum):
    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(slots=True)
class ClassifiedOwners:
    """The owners of an object, grouped by their state on the server."""

    solid: list[OwnerRef] = field(default_factory=list)
    absent: list[OwnerRef] = field(default_factory=list)
    waiting: list[OwnerRef] = field(default_factory=list)
    """Owners in foreground deletion, waiting for their dependents."""


@dataclass(frozen=True, slots=True)
class ReferenceRemoval:
    """The decision to keep the object and to remove its references to these owners."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ObjectDeletion:
    propagation: DeletionPropagation
    unblocks: bool = False
    """Whether blockOwnerDeletion is cleared first, as owner and dependent might otherwise wait for each other."""


GarbageDecision = ReferenceRemoval | ObjectDeletion | None
"""None means that nothing is to be done."""


def decide(
    obj: OwnedObject, owners: ClassifiedOwners, *, has_dependents: bool, dependent_waits: bool
) -> GarbageDecision:
    """Decide about an object. `dependent_waits` is true if a dependent of it is itself in foreground deletion."""
    if not obj.owners:
        return None
    if owners.solid:
        uids = [ref.uid for ref in (*owners.absent, *owners.waiting)]
        return ReferenceRemoval(uids) if uids else None
    if owners.waiting and has_dependents:
        return ObjectDeletion(DeletionPropagation.FOREGROUND, unblocks=dependent_waits)
    return ObjectDeletion(_requested_propagation(obj))


def _requested_propagation(obj: OwnedObject) -> DeletionPropagation:
    """Return the propagation policy requested by the finalizers that the object already has."""
    if obj.has(ORPHAN):
        return DeletionPropagation.ORPHAN
    return DeletionPropagation.FOREGROUND if obj.has(FOREGROUND) else DeletionPropagation.BACKGROUND


def remove_owners_patch(uid: str, owners: Collection[str]) -> Mapping[str, Any]:
    """Return the strategic merge patch that removes these owner references from the object with this UID."""
    struck = [{"$patch": "delete", "uid": owner} for owner in owners]
    return {"metadata": {"ownerReferences": struck, "uid": uid}}


def remove_owners_merge_patch(meta: Any, owners: Collection[str]) -> Mapping[str, Any]:
    """Return the JSON merge patch that removes these owner references from the live object."""
    return _merge(meta, [ref for ref in meta.ownerReferences if ref.uid not in owners])


def unblock_patch(uid: str, owners: Iterable[OwnerRef]) -> Mapping[str, Any]:
    """Return the strategic merge patch that clears blockOwnerDeletion in all owner references."""
    refs = [
        {"apiVersion": ref.apiVersion, "kind": ref.kind, "name": ref.name, "uid": ref.uid, "blockOwnerDeletion": False}
        for ref in owners
        if ref.blockOwnerDeletion
    ]
    return {"metadata": {"ownerReferences": refs, "uid": uid}}


def unblock_merge_patch(meta: Any) -> Mapping[str, Any]:
    return _merge(meta, [msgspec.structs.replace(ref, blockOwnerDeletion=False) for ref in meta.ownerReferences])


def _merge(meta: Any, refs: Sequence[Any]) -> Mapping[str, Any]:
    return {"metadata": {"resourceVersion": meta.resourceVersion, "ownerReferences": list(refs) or None}}


def remove_finalizer_patch(obj: OwnedObject, finalizer: str) -> Mapping[str, Any]:
    """Return the JSON merge patch that removes a finalizer."""
    finalizers = [name for name in obj.metadata.finalizers or () if name != finalizer]
    return {"metadata": {"resourceVersion": obj.metadata.resourceVersion, "finalizers": finalizers or None}}
