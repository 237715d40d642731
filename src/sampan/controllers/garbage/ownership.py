"""The part of the metadata that the garbage collector decodes: identity, owner references and deletion state."""

from typing import Any

import msgspec

from sampan.api.limits import OWNERS_PER_OBJECT
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.types.meta_v1 import ListMeta
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import INITIAL_EVENTS_END

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""The finalizers that request foreground deletion and orphaning of dependents."""


class OwnerRef(msgspec.Struct, frozen=True, gc=False):
    """An owner reference."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    blockOwnerDeletion: bool | None = None

    def __str__(self) -> str:
        return f"{self.apiVersion}/{self.kind} {self.name}"


class WatchAnnotations(msgspec.Struct, gc=False):
    """Decodes only the annotation that marks the end of the initial events of a watch."""

    end: str | None = msgspec.field(default=None, name=INITIAL_EVENTS_END)

    def __contains__(self, key: str) -> bool:
        return key == INITIAL_EVENTS_END and self.end is not None


_NO_ANNOTATIONS = WatchAnnotations()


class OwnershipMetadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    deletionTimestamp: str | None = None
    ownerReferences: tuple[OwnerRef, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    annotations: WatchAnnotations = msgspec.field(default_factory=lambda: _NO_ANNOTATIONS)


class OwnedObject(msgspec.Struct, gc=False):
    """An object of any kind."""

    metadata: OwnershipMetadata = msgspec.field(default_factory=OwnershipMetadata)

    @property
    def owners(self) -> tuple[OwnerRef, ...]:
        """The owner references; none for an object with too many, which is never collected."""
        owners = self.metadata.ownerReferences or ()
        return owners if len(owners) <= OWNERS_PER_OBJECT else ()

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    def has(self, finalizer: str) -> bool:
        return finalizer in (self.metadata.finalizers or ())

    @property
    def waits_for_dependents(self) -> bool:
        """Whether the object is being deleted in the foreground, after its blocking dependents."""
        return self.is_deleted and self.has(FOREGROUND)

    @property
    def orphans_dependents(self) -> bool:
        """Whether the object is being deleted and its dependents are to be orphaned."""
        return self.is_deleted and self.has(ORPHAN)


_decode = msgspec.json.Decoder(OwnedObject).decode


class _OwnedObjectList(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[OwnedObject] | None = None


_decode_list = msgspec.json.Decoder(_OwnedObjectList).decode


class OwnershipCodec(ObjectCodec):
    """Decodes `OwnedObject` from a full object or from PartialObjectMetadata."""

    @property
    def is_metadata(self) -> bool:
        return True

    def decode(self, raw: bytes) -> OwnedObject:
        return _decode(raw)

    def decode_list(self, raw: bytes) -> tuple[ListMeta, list[Any]]:
        decoded = _decode_list(raw)
        return decoded.metadata, list(decoded.items or ())


OWNERSHIP = OwnershipCodec(
    GroupVersionKind(group="meta.k8s.io", version="v1", kind="PartialObjectMetadata"),
    OwnedObject,
)
