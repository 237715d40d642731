"""Owner references and controller references (`k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go`)."""

from __future__ import annotations

from typing import Protocol

from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference


class WithMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


class OwnerObject(WithMetadata, Protocol):
    apiVersion: str
    kind: str


def new_controller_ref(owner: OwnerObject) -> OwnerReference:
    """Return the owner reference that makes `owner` the controller of an object."""
    return OwnerReference(
        apiVersion=owner.apiVersion,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        blockOwnerDeletion=True,
    )


def controller_of(obj: WithMetadata) -> OwnerReference | None:
    """Return the reference to the controller of the object, or None if no controller manages it."""
    for reference in obj.metadata.ownerReferences:
        if reference.controller:
            return reference
    return None


def is_controlled_by(obj: WithMetadata, owner: WithMetadata) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.uid == owner.metadata.uid
