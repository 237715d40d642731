"""The controller: one key per namespace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sampan.api.pod_amounts import Amounts, add
from sampan.api.resource import Resource
from sampan.api.types.core_v1 import (
    ConfigMap,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    ResourceQuota,
    Secret,
    Service,
)
from sampan.controllers.descriptor import Parts
from sampan.controllers.namespaces import namespace_of
from sampan.controllers.resource_quota.recount import (
    GroupPlural,
    counted_resources,
    has_less,
    is_same,
    status_for,
    usage_of,
)
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.quota import evaluator_of

SETTLE_S = 2.0
"""A quota's use is only lowered when nobody has charged it for so long: what was charged may be on its way into the
store, and would be given out twice."""
LISTED_S = 10.0
"""How often resources that are not watched are counted."""
RESYNC_S = 300.0
"""How often a namespace is counted even if nothing happens: time alone changes what pods use."""
_EASY, _PER_OBJECT_S = 200, 0.001
"""A namespace with more objects than that is not counted all the time; how long it is left alone for each of them."""
_MEASURED = (Pod, Service, PersistentVolumeClaim, ResourceQuota)
_COUNTED = (ConfigMap, Secret, ReplicationController)

Discover = Callable[[], Awaitable[tuple[Sequence[Resource], str]]]
"""All resources, and what could not be found out."""


class ResourceQuotaController:
    name = "resourcequota-controller"
    watches = (
        *(Watch(resource_of(kind), namespace_of) for kind in _MEASURED),
        *(Watch(resource_of(kind), namespace_of, metadata_only=True) for kind in _COUNTED),
    )

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, discover: Discover) -> None:
        self._client, self._clock, self._discover = client, clock, discover
        self._quotas = informers.of(ResourceQuota).lister
        self._listers = {
            (watch.resource.group, watch.resource.plural): informers.informer(
                watch.resource, metadata_only=watch.metadata_only
            ).lister
            for watch in self.watches
        }
        self._seen: dict[str, dict[str, tuple[str, float]]] = {}
        """By namespace and name, the version of each quota and since when it is known."""
        self._rests_until: dict[str, float] = {}
        """Namespaces that are left alone for a while."""

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
        self._seen.pop(namespace, None)

    async def _recount(self, quota: ResourceQuota) -> float:
        """Bring one quota up to date; when to look at it again."""
        resources = counted_resources(quota, evaluator_of)
        counted = await self._counted(quota, resources)
        quiet_s = self._quiet_s(quota)
        wanted = status_for(quota, counted, may_lower=quiet_s >= SETTLE_S)
        if not is_same(wanted, quota.status):
            changed = copy_of(quota)
            changed.status = wanted
            await self._client.of(ResourceQuota).update_status(changed)
        if quiet_s < SETTLE_S and has_less(counted, quota):
            return SETTLE_S - quiet_s
        return RESYNC_S if resources <= self._listers.keys() else LISTED_S

    def _quiet_s(self, quota: ResourceQuota) -> float:
        """For how long the quota has been as it is, as far as known."""
        meta, now = quota.metadata, self._clock.monotonic()
        seen = self._seen.setdefault(meta.namespace, {})
        version, since = seen.get(meta.name, ("", now))
        if version != meta.resourceVersion:
            seen[meta.name] = (meta.resourceVersion, now)
            return 0.0
        return now - since

    async def _counted(self, quota: ResourceQuota, resources: set[GroupPlural]) -> Amounts:
        total: Amounts = {}
        for resource in sorted(resources):
            evaluator, objects = evaluator_of(*resource), await self._objects(resource, quota.metadata.namespace)
            if evaluator is not None and objects is not None:
                add(total, usage_of(quota, evaluator, objects, self._clock.now()))
        return total

    async def _objects(self, resource: GroupPlural, namespace: str) -> Sequence[Any] | None:
        """None where they cannot be known."""
        lister = self._listers.get(resource)
        if lister is not None:
            return lister.list(namespace)
        known, _ = await self._discover()
        found = [one for one in known if (one.group, one.plural) == resource and one.namespaced]
        if not found:
            return None
        try:
            return (await self._client.metadata(found[0]).list_all(Selection(namespace=namespace))).items
        except errors.NotFound:
            return None


def make(parts: Parts) -> ResourceQuotaController:
    client = parts.client_for(ResourceQuotaController.name)
    return ResourceQuotaController(
        client=client, informers=parts.informers, clock=parts.clock, discover=Discovery(client).preferred
    )
