"""The little that the collector reads of every object: who it is, who owns it, whether it is on its way out."""

from typing import Any

import msgspec

from sampan.api.resource import GroupVersionKind
from sampan.api.types.meta_v1 import ListMeta
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import INITIAL_EVENTS_END

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""The finalizers by which a deletion says what is to become of the dependents."""


class Reference(msgspec.Struct, frozen=True, gc=False):
    """An owner as a dependent names it."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    blockOwnerDeletion: bool | None = None

    def __str__(self) -> str:
        return f"{self.apiVersion}/{self.kind} {self.name}"


class Annotations(msgspec.Struct, gc=False):
    """Of all annotations only the one that bookmarks have."""

    end: str | None = msgspec.field(default=None, name=INITIAL_EVENTS_END)

    def __contains__(self, key: str) -> bool:
        return key == INITIAL_EVENTS_END and self.end is not None


_NO_ANNOTATIONS = Annotations()


class Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    deletionTimestamp: str | None = None
    ownerReferences: tuple[Reference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    annotations: Annotations = msgspec.field(default_factory=lambda: _NO_ANNOTATIONS)


class Owned(msgspec.Struct, gc=False):
    """An object of any kind."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)

    @property
    def owners(self) -> tuple[Reference, ...]:
        return self.metadata.ownerReferences or ()

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletionTimestamp is not None

    def has(self, finalizer: str) -> bool:
        return finalizer in (self.metadata.finalizers or ())

    @property
    def waits_for_dependents(self) -> bool:
        """It is deleted, and goes after those that say it must wait for them."""
        return self.is_deleted and self.has(FOREGROUND)

    @property
    def lets_go(self) -> bool:
        """It is deleted, and its dependents are to stay."""
        return self.is_deleted and self.has(ORPHAN)


_decode = msgspec.json.Decoder(Owned).decode


class _List(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Owned] | None = None


_decode_list = msgspec.json.Decoder(_List).decode


class OwnershipCodec(ObjectCodec):
    """Reads `Owned` from whatever the server sends of an object."""

    @property
    def is_metadata(self) -> bool:
        return True

    def decode(self, raw: bytes) -> Owned:
        return _decode(raw)

    def decode_list(self, raw: bytes) -> tuple[ListMeta, list[Any]]:
        found = _decode_list(raw)
        return found.metadata, list(found.items or ())


OWNERSHIP = OwnershipCodec(
    GroupVersionKind(group="meta.k8s.io", version="v1", kind="PartialObjectMetadata"),
    Owned,
)

__all__ = ["FOREGROUND", "ORPHAN", "OWNERSHIP", "Metadata", "Owned", "Reference"]
