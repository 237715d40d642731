"""Preconditions of a write: the resource version and the UID that a client expects the stored object to have."""

from typing import Any

from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.machinery import errors

_MAX_UINT64 = 2**64 - 1


def version_number(text: str) -> int:
    """Return the number of a resource version, 0 if it is empty. If it is no 64-bit number, raise an error with code
    500 and without a reason, as kube-apiserver does."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise errors.unexpected_error(f"strconv.ParseUint: parsing {gotext.quote(text)}: invalid syntax")
    number = int(text) if len(text) <= 32 else _MAX_UINT64 + 1
    if number > _MAX_UINT64:
        raise errors.unexpected_error(f"strconv.ParseUint: parsing {gotext.quote(text)}: value out of range")
    return number


def check_version(resource: Resource, obj: Any, revision: int, *, may_be_missing: bool) -> None:
    """Raise Conflict if the resource version in an updated object is outdated, Invalid if a required one is missing."""
    expected = version_number(obj.metadata.resourceVersion)
    if expected == 0:
        if not may_be_missing:
            error = FieldError.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource.plural, obj.metadata.name, [error], group=resource.group)
    elif expected != revision:
        raise errors.conflict(resource.plural, obj.metadata.name, group=resource.group)


def check_stored(resource: Resource, key: str, obj: Any | None, *, uid: str = "", resource_version: str = "") -> None:
    """Raise Conflict, with the message of kube-apiserver's storage layer, if a precondition fails.

    `obj` is the stored object, None if there is none.
    """
    meta = obj.metadata if obj is not None else None
    for word, expected, present in (
        ("UID", uid, meta.uid if meta else ""),
        ("ResourceVersion", resource_version, meta.resourceVersion if meta else ""),
    ):
        if expected and expected != present:
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: {word} in precondition: {expected}, {word} in object meta: {present}"
            )
            raise errors.conflict(resource.plural, key.rpartition("/")[2], why, group=resource.group)


def check(obj: Any, *, uid: str | None, resource_version: str | None) -> None:
    """Raise Conflict if the object to delete does not have the expected UID and resource version. None means no
    precondition, but an empty string is one, which no object meets."""
    meta = obj.metadata
    if uid is not None and uid != meta.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif resource_version is not None and resource_version != meta.resourceVersion:
        why = (
            f"the ResourceVersion in the precondition ({resource_version}) does not match the "
            f"ResourceVersion in record ({meta.resourceVersion}). The object might have been modified"
        )
    else:
        return
    raise errors.conflict(obj.kind, meta.name, why, group=obj.apiVersion.rpartition("/")[0])
