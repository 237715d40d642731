"""resourcequota-controller, which keeps the usage in the status of each ResourceQuota up to date.

The counterpart is `pkg/controller/resourcequota`. There is one key per namespace; the computation of a status is pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from sampan.api.resources.resource import Resource
from sampan.api.semantics.pod_resources import Amounts, add
from sampan.api.types.core_v1 import (
    ConfigMap,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    ResourceQuota,
    ResourceQuotaStatus,
    Secret,
    Service,
)
from sampan.api.values.quantity import Quantity, are_equal, parse
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.namespace_phase import namespace_of
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.decisions import note_decision
from sampan.machinery.informer import InformerFactory
from sampan.machinery.quota import QuotaEvaluator, count_name, evaluator_of, is_in_scope

SETTLE_S = 2.0
"""Usage is lowered only if the quota has not changed for this many seconds: objects that admission has already charged
may not be stored yet, and their share would be granted twice.
"""
LISTED_S = 10.0
"""Seconds between recounts of resources that are not watched."""
RESYNC_S = 300.0
"""Seconds between full recounts; the usage of pods also changes with time alone."""
_EASY, _PER_OBJECT_S = 200, 0.001
"""Namespaces with more than `_EASY` objects are recounted less often: after a pause of `_PER_OBJECT_S` seconds per
object."""
_MEASURED = (Pod, Service, PersistentVolumeClaim, ResourceQuota)
_COUNTED_KINDS = (ConfigMap, Secret, ReplicationController)
Discover = Callable[[], Awaitable[tuple[Sequence[Resource], str]]]
"""Return all resources, and the discovery failure (empty if there was none)."""
GroupPlural = tuple[str, str]
_BASIC = (
    *(("", "pods"), ("", "services"), ("", "persistentvolumeclaims"), ("", "configmaps"), ("", "secrets")),
    *(("", "replicationcontrollers"), ("", "resourcequotas")),
)
_COUNT = "count/"


class ResourceQuotaController:
    name = "resourcequota-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, discover: Discover) -> None:
        self.watches = (
            *(Watch(resource_of(kind), namespace_of) for kind in _MEASURED),
            *(Watch(resource_of(kind), namespace_of, metadata_only=True) for kind in _COUNTED_KINDS),
        )
        self._client, self._clock, self._discover = client, clock, discover
        self._quotas = informers.for_kind(ResourceQuota).lister
        self._listers = {
            (watch.resource.group, watch.resource.plural): informers.informer(
                watch.resource, metadata_only=watch.metadata_only
            ).lister
            for watch in self.watches
        }
        self._observed: dict[str, dict[str, tuple[str, float]]] = {}
        """Version of each quota and the time it was first seen, by namespace and name."""
        self._rests_until: dict[str, float] = {}
        """Monotonic times until which namespaces are not recounted."""

    async def reconcile(self, key: str) -> float | None:
        quotas = self._quotas.list(key)
        if not quotas:
            self._forget(key)
            return None
        now = self._clock.monotonic()
        if (wait_s := self._rests_until.get(key, now) - now) > 0:
            return wait_s
        pauses = [await self._recount(quota) for quota in quotas]
        size = sum(len(lister.list(key)) for lister in self._listers.values())
        if size > _EASY:
            self._rests_until[key] = self._clock.monotonic() + size * _PER_OBJECT_S
        return min(pauses)

    def _forget(self, namespace: str) -> None:
        self._rests_until.pop(namespace, None)
        self._observed.pop(namespace, None)

    async def _recount(self, quota: ResourceQuota) -> float:
        """Update the status of one quota and return the seconds until the next recount."""
        resources = counted_resources(quota, evaluator_of)
        counted = await self._count_usage(quota, resources)
        quiet_s = self._quiet_s(quota)
        desired = status_for(quota, counted, may_lower=quiet_s >= SETTLE_S)
        if not is_same(desired, quota.status):
            note_decision(f"usage {desired.used}", dict(quota.status.used), "update the status")
            changed = copy_of(quota)
            changed.status = desired
            await self._client.for_kind(ResourceQuota).update_status(changed)
        if quiet_s < SETTLE_S and has_less(counted, quota):
            return SETTLE_S - quiet_s
        return RESYNC_S if resources <= self._listers.keys() else LISTED_S

    def _quiet_s(self, quota: ResourceQuota) -> float:
        """Return for how many seconds this controller has seen the quota unchanged."""
        meta, now = quota.metadata, self._clock.monotonic()
        versions = self._observed.setdefault(meta.namespace, {})
        version, since = versions.get(meta.name, ("", now))
        if version != meta.resourceVersion:
            versions[meta.name] = (meta.resourceVersion, now)
            return 0.0
        return now - since

    async def _count_usage(self, quota: ResourceQuota, resources: set[GroupPlural]) -> Amounts:
        total: Amounts = {}
        for resource in sorted(resources):
            evaluator, objects = evaluator_of(*resource), await self._objects(resource, quota.metadata.namespace)
            if evaluator is not None and objects is not None:
                add(total, usage_of(quota, evaluator, objects, self._clock.now()))
        return total

    async def _objects(self, resource: GroupPlural, namespace: str) -> Sequence[Any] | None:
        """Return the objects, or None if the resource is not served."""
        lister = self._listers.get(resource)
        if lister is not None:
            return lister.list(namespace)
        served, _ = await self._discover()
        matching = [
            candidate
            for candidate in served
            if (candidate.group, candidate.plural) == resource and candidate.namespaced
        ]
        if not matching:
            return None
        try:
            return (await self._client.metadata(matching[0]).list_all(Selection(namespace=namespace))).items
        except errors.NotFound:
            return None


def make(context: ControllerContext) -> ResourceQuotaController:
    client = context.client
    return context.build(ResourceQuotaController, client=client, discover=Discovery(client).discover_preferred)


def counted_resources(
    quota: ResourceQuota, evaluator_of: Callable[[str, str], QuotaEvaluator | None]
) -> set[GroupPlural]:
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


def usage_of(quota: ResourceQuota, evaluator: QuotaEvaluator, objects: Iterable[Any], now: float) -> Amounts:
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
