"""The managers of an object's fields: decoding and encoding of `metadata.managedFields`, and the managers of a Scale,
which are those of the replicas field of the scaled object.

Entries keep the bytes that they were decoded from for as long as their fields are unchanged, so that a write encodes
only the entries that it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Raw, structs

from sampan.api.go_compat import gotext
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery.apply import sets
from sampan.machinery.apply.sets import BadFields, Fields, Path

APPLY, UPDATE = "Apply", "Update"
FIELDS_V1 = "FieldsV1"


class FieldOwner(NamedTuple):
    """The identity of a manager. A manager that applies is the same in all versions, so its version is empty."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @property
    def identity(self) -> str:
        """The text by which kube-apiserver identifies and sorts managers."""
        parts = zip(("manager", "operation", "apiVersion", "subresource"), self, strict=True)
        return "{" + ",".join(f'"{name}":{gotext.json_text(part)}' for name, part in parts if part) + "}"


class VersionedFieldSet(NamedTuple):
    """The fields that a manager owns, in `api_version`, since `time`."""

    fields: Fields
    api_version: str
    time: str | None
    raw: bytes | None = None
    """The FieldsV1 bytes of `fields`; None if they have not been encoded yet."""


Managed: TypeAlias = dict[FieldOwner, VersionedFieldSet]
Read: TypeAlias = Callable[[bytes, str], tuple[Fields, bytes]]
"""Takes the bytes of a FieldsV1 and a version. Returns the set, reconciled with the schema of that version, and the
bytes to write back."""


class BadEntry(ValueError):
    """An entry of managedFields that the server cannot have written."""


def owner(manager: str, operation: str, api_version: str, subresource: str) -> FieldOwner:
    return FieldOwner(manager, operation, "" if operation == APPLY else api_version, subresource)


def decode(entries: Sequence[ManagedFieldsEntry], read: Read) -> Managed:
    """Return the managers in managedFields entries. Raise BadEntry."""
    out: Managed = {}
    for index, entry in enumerate(entries):
        _check(entry, index)
        raw = bytes(entry.fieldsV1)
        try:
            fields, canonical = read(raw, entry.apiVersion) if raw else (sets.EMPTY, None)
        except BadFields as error:
            raise BadEntry(f"error decoding set: {error}") from None
        field_owner = owner(entry.manager, entry.operation, entry.apiVersion, entry.subresource)
        out[field_owner] = VersionedFieldSet(fields, entry.apiVersion, entry.time, canonical)
    return out


def _check(entry: ManagedFieldsEntry, index: int) -> None:
    if entry.operation not in (APPLY, UPDATE):
        raise BadEntry("operation must be `Apply` or `Update`")
    if not entry.apiVersion:
        raise BadEntry("apiVersion must not be empty")
    if entry.fieldsType != FIELDS_V1:
        if not entry.fieldsType:
            raise BadEntry(f"missing fieldsType in managed fields entry {index}")
        raise BadEntry(f"invalid fieldsType {gotext.quote(entry.fieldsType)} in managed fields entry {index}")


def encode(
    claims: Iterable[tuple[FieldOwner, VersionedFieldSet]], note: Callable[[bytes, str, Fields], None]
) -> list[ManagedFieldsEntry]:
    """Return the managedFields entries, sorted. `note` is called with newly encoded bytes and their fields, so that
    these bytes need not be decoded later."""
    entries = [_entry(field_owner, claim, note) for field_owner, claim in claims]
    if len(entries) > 1:
        entries.sort(key=_order)
    return entries


def _entry(
    owner: FieldOwner, claim: VersionedFieldSet, note: Callable[[bytes, str, Fields], None]
) -> ManagedFieldsEntry:
    raw = claim.raw
    if raw is None:
        raw = sets.encode(claim.fields)
        note(raw, claim.api_version, claim.fields)
    return ManagedFieldsEntry(
        manager=owner.manager,
        operation=owner.operation,
        apiVersion=claim.api_version,
        time=claim.time,
        fieldsType=FIELDS_V1,
        fieldsV1=Raw(raw),
        subresource=owner.subresource,
    )


def _order(entry: ManagedFieldsEntry) -> tuple[str, str, str, str, str]:
    return entry.operation, entry.time or "", entry.manager, entry.apiVersion, entry.subresource


def differ_in_time_only(before: Sequence[ManagedFieldsEntry], after: Sequence[ManagedFieldsEntry]) -> bool:
    """Whether two lists of managedFields entries differ, but only in their times."""
    if len(before) != len(after) or all(old.time == new.time for old, new in zip(before, after, strict=True)):
        return False
    return all(structs.replace(old, time=new.time) == new for old, new in zip(before, after, strict=True))


SCALE_VERSION = "autoscaling/v1"
REPLICAS: Path = ("f:spec", "f:replicas")
"""The path of the replicas in a Scale, and in most scaled objects."""


def derive_scale_managers(parent: Managed, paths: dict[str, Path]) -> Managed:
    """Return the managers of the Scale. `paths` has the path of the replicas in each version of the object."""
    out: Managed = {}
    for field_owner, claim in parent.items():
        path = paths.get(claim.api_version)
        if path is not None and sets.has(claim.fields, path):
            scale_owner = owner(field_owner.manager, field_owner.operation, SCALE_VERSION, field_owner.subresource)
            out[scale_owner] = VersionedFieldSet(sets.from_paths(REPLICAS), SCALE_VERSION, claim.time)
    return out


def merge_scale_managers(parent: Managed, scale: Managed, version: str, paths: dict[str, Path]) -> list[Managed]:
    """Return the managers of the object, in two parts that may contain the same owner, as in kube-apiserver: managers
    that update are identified by version, and so never match those of the Scale. An entry from the Scale keeps its time
    only if it belongs to an applying manager that the object already has."""
    own: Managed = {}
    remainder = dict(scale)
    for field_owner, claim in parent.items():
        if claim.api_version not in paths:
            continue
        path = paths[claim.api_version]
        if not sets.has(claim.fields, path):
            own[field_owner] = claim
        elif field_owner in remainder:
            del remainder[field_owner]
            own[field_owner] = claim
        elif remaining := sets.difference(claim.fields, sets.from_paths(path)):
            own[field_owner] = claim._replace(fields=remaining, raw=None)
    inherited: Managed = {}
    for field_owner, claim in remainder.items():
        if not sets.has(claim.fields, REPLICAS):
            continue
        before = parent.get(field_owner)
        new_owner = owner(field_owner.manager, field_owner.operation, version, field_owner.subresource)
        time = before.time if before is not None and field_owner.operation != UPDATE else None
        inherited[new_owner] = VersionedFieldSet(sets.from_paths(paths[version]), version, time)
    return [own, inherited]
