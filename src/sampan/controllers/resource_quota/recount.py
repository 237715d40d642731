"""Computation of the status of a ResourceQuota. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sampan.api.quantity import Quantity, are_equal, parse
from sampan.api.semantics.pod_resources import Amounts, add
from sampan.api.types.core_v1 import ResourceQuota, ResourceQuotaStatus
from sampan.machinery.quota import Evaluator, count_name, is_in_scope

GroupPlural = tuple[str, str]
_BASIC = (
    *(("", "pods"), ("", "services"), ("", "persistentvolumeclaims"), ("", "configmaps"), ("", "secrets")),
    *(("", "replicationcontrollers"), ("", "resourcequotas")),
)
_COUNT = "count/"


def counted_resources(quota: ResourceQuota, evaluator_of: Callable[[str, str], Evaluator | None]) -> set[GroupPlural]:
    """Return the resources whose objects must be counted for this quota."""
    hard = quota.spec.hard
    resources = set()
    for resource in _BASIC:
        evaluator = evaluator_of(*resource)
        if evaluator is not None and evaluator.names_in(hard):
            resources.add(resource)
    for name in hard:
        if name.startswith(_COUNT):
            plural, _, group = name.removeprefix(_COUNT).partition(".")
            if evaluator_of(group, plural) is not None and count_name(group, plural) == name:
                resources.add((group, plural))
    return resources


def usage_of(quota: ResourceQuota, evaluator: Evaluator, objects: Iterable[Any], now: float) -> Amounts:
    """Return the usage of these objects, all of one resource, that the quota counts."""
    names = evaluator.names_in(quota.spec.hard)
    total = dict.fromkeys(names, Quantity())
    for obj in objects:
        if is_in_scope(quota, obj, evaluator.is_in):
            usage = evaluator.usage(obj, now)
            add(total, {name: usage[name] for name in names if name in usage})
    return total


def status_for(quota: ResourceQuota, counted: Amounts, *, may_lower: bool) -> ResourceQuotaStatus:
    """Return the status for these counts.

    Unless `may_lower`, usage is not reduced, since admission may have charged objects that are not stored yet.
    Resources that could not be counted keep their last known usage.
    """
    old, used = quota.status.used, {}
    for name in quota.spec.hard:
        before, amount = old.get(name), counted.get(name)
        if amount is None and before is None:
            continue
        if amount is None or (before is not None and _keeps(parse(before), amount, may_lower)):
            used[name] = str(before)
        else:
            used[name] = str(amount)
    return ResourceQuotaStatus(hard=dict(quota.spec.hard), used=used)


def _keeps(before: Quantity, amount: Quantity, may_lower: bool) -> bool:
    return amount == before or (amount < before and not may_lower)


def is_same(resource_quota_status: ResourceQuotaStatus, other: ResourceQuotaStatus) -> bool:
    return are_equal(resource_quota_status.hard, other.hard) and are_equal(resource_quota_status.used, other.used)


def has_less(counted: Amounts, quota: ResourceQuota) -> bool:
    """Whether the quota is charged for more than was counted."""
    used = quota.status.used
    return any(name in used and amount < parse(used[name]) for name, amount in counted.items())
