"""Pure computation of the patch between two pod statuses."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.types.core_v1 import PodCondition, PodStatus
from sampan.kubelet.conditions import PASSING

_FIELDS = msgspec.structs.fields(PodStatus)
_BY_IP = ("podIPs", "hostIPs")
_OTHERS = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
"""Status fields that other components write."""


def status_patch(old: PodStatus, new: PodStatus) -> dict[str, Any]:
    """Return a strategic merge patch, empty if nothing has changed."""
    patch: dict[str, Any] = {}
    for field in _FIELDS:
        name = field.name
        before, after = getattr(old, name), getattr(new, name)
        if before == after or name in _OTHERS:
            continue
        if name == "conditions":
            patch.update(_conditions(before, after))
        elif name in _BY_IP:
            gone = {address.ip for address in before} - {address.ip for address in after}
            patch[name] = [json.to_value(address) for address in after]
            patch[name] += [{"$patch": "delete", "ip": ip} for ip in sorted(gone)]
        else:
            patch[name] = json.to_value(after) if after or after == 0 else None
    return patch


def _conditions(old: Sequence[PodCondition], new: Sequence[PodCondition]) -> dict[str, Any]:
    before = {condition.type: condition for condition in old}
    changed: list[dict[str, Any]] = [
        _changed(before.get(condition.type), condition) for condition in new if before.get(condition.type) != condition
    ]
    gone = [name for name in PASSING if name in before and all(condition.type != name for condition in new)]
    changed += [{"$patch": "delete", "type": name} for name in gone]
    if not changed:
        return {}
    return {"$setElementOrder/conditions": [{"type": condition.type} for condition in new], "conditions": changed}


def _changed(old: PodCondition | None, new: PodCondition) -> dict[str, Any]:
    """Return the new condition, with null for every field that only the old one has."""
    value: dict[str, Any] = json.to_value(new)
    gone = set(json.to_value(old)) - set(value) if old is not None else ()
    return value | dict.fromkeys(gone)
