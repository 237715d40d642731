"""What a client may insist on about the object that its write meets: its version and its uid. Pure."""

from typing import Any

from sampan.api import gotext
from sampan.api.resource import Resource
from sampan.machinery import errors
from sampan.machinery.errors import FieldError

_MOST = 2**64 - 1


def version_number(text: str) -> int:
    """The number of a resource version, 0 where it says nothing. What is no number fails without a reason."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise errors.unexpected(f"strconv.ParseUint: parsing {gotext.quote(text)}: invalid syntax")
    number = int(text) if len(text) <= 32 else _MOST + 1
    if number > _MOST:
        raise errors.unexpected(f"strconv.ParseUint: parsing {gotext.quote(text)}: value out of range")
    return number


def refuse_version_of_new(text: str) -> None:
    """A new object has no version yet. What is no number is not looked at."""
    if text and text.isascii() and text.isdigit() and text.strip("0"):
        raise errors.unexpected("resourceVersion should not be set on objects to be created")


def check_version(resource: Resource, obj: Any, revision: int, *, may_be_missing: bool) -> None:
    """Of an update: the version that `obj` names must be the one that is stored."""
    wanted = version_number(obj.metadata.resourceVersion)
    if wanted == 0:
        if not may_be_missing:
            fault = FieldError.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource.plural, obj.metadata.name, [fault], group=resource.group)
    elif wanted != revision:
        raise errors.conflict(resource.plural, obj.metadata.name, group=resource.group)


def check_stored(resource: Resource, key: str, found: Any | None, *, uid: str = "", resource_version: str = "") -> None:
    """As the real server's store checks: `found` is what lies at the key, None if nothing does."""
    meta = found.metadata if found is not None else None
    for word, wanted, present in (
        ("UID", uid, meta.uid if meta else ""),
        ("ResourceVersion", resource_version, meta.resourceVersion if meta else ""),
    ):
        if wanted and wanted != present:
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {present}"
            )
            raise errors.conflict(resource.plural, key.rpartition("/")[2], why, group=resource.group)


def check(obj: Any, *, uid: str = "", resource_version: str = "") -> None:
    """Of a deletion: the object must be the very one, in the very state, that the client knows."""
    meta = obj.metadata
    if uid and uid != meta.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif resource_version and resource_version != meta.resourceVersion:
        why = (
            f"the ResourceVersion in the precondition ({resource_version}) does not match the "
            f"ResourceVersion in record ({meta.resourceVersion}). The object might have been modified"
        )
    else:
        return
    raise errors.conflict(obj.kind, meta.name, why, group=obj.apiVersion.rpartition("/")[0])


__all__ = ["check", "check_stored", "check_version", "refuse_version_of_new", "version_number"]
