"""Checks that a sent object agrees with the request path, and silent corrections of it."""

from typing import Any

import msgspec

from sampan.api.types.meta_v1 import OwnerReference
from sampan.apiserver.call import Call
from sampan.machinery import errors

_TWICE = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def match_namespace(call: Call, obj: Any) -> None:
    """Set a missing namespace from the path, and clear that of a cluster-scoped object. Raise BadRequest if they
    differ."""
    meta = obj.metadata
    if call.resource is None or not call.resource.namespaced:
        meta.namespace = ""
    elif not meta.namespace:
        meta.namespace = call.namespace
    elif meta.namespace != call.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def match_name(call: Call, obj: Any) -> None:
    name = obj.metadata.name
    if not name:
        text = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(text)
    if name != call.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def drop_repeated_owners(call: Call, obj: Any, *, is_after_admission: bool = False) -> None:
    owners: list[OwnerReference] = obj.metadata.ownerReferences
    if len(owners) < 2:
        return
    encoded_owners: set[bytes] = set()
    kept: list[OwnerReference] = []
    repeated: list[OwnerReference] = []
    for owner in owners:
        text = msgspec.json.encode(owner)
        (repeated if text in encoded_owners else kept).append(owner)
        encoded_owners.add(text)
    if repeated:
        when = " after mutating admission happens" if is_after_admission else ""
        call.warn(_TWICE.format(when, ", ".join(owner.uid for owner in repeated)))
        obj.metadata.ownerReferences = kept
