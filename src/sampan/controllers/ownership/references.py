"""Controller references: the owner references that have `controller` set."""

from typing import Any

from sampan.api.types.meta_v1 import OwnerReference


def controller_ref(owner: Any) -> OwnerReference:
    """Return the reference that makes `owner` the controller of an object."""
    meta = owner.metadata
    return OwnerReference(
        apiVersion=owner.apiVersion,
        kind=owner.kind,
        name=meta.name,
        uid=meta.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def controller_of(obj: Any) -> OwnerReference | None:
    """Return the reference to the controller of the object, or None for an orphan."""
    for reference in obj.metadata.ownerReferences:
        if reference.controller:
            controller: OwnerReference = reference
            return controller
    return None


def is_controlled_by(obj: Any, owner: Any) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.uid == owner.metadata.uid
