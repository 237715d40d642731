"""endpoints-controller, which maintains the legacy Endpoints object of every service that has a selector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sampan.api.types.core_v1 import Endpoints, Pod, Service
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.namespace_phase import TERMINATING_CAUSE
from sampan.controllers.services.pods import (
    HEADLESS,
    LAST_CHANGE,
    Add,
    PodFeed,
    TriggerTimes,
    has_many,
    is_headless,
    pods_of,
    takes_pods,
)
from sampan.controllers.services.subsets import subsets_of, truncate_subsets
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.copies import copy_of
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_CREATION_TIMEOUT_S = 1.0
"""How long created Endpoints are awaited in the cache before they are created again."""


def labels_of(service: Service) -> dict[str, str]:
    labels = {key: value for key, value in service.metadata.labels.items() if key != HEADLESS}
    if is_headless(service):
        labels[HEADLESS] = ""
    labels[MANAGED_BY] = MANAGER
    return labels


def build_endpoints(
    service: Service, pods: Sequence[Pod], current: Endpoints | None, changed_at: str
) -> Endpoints | None:
    """Return the desired object, or None if the existing one needs no change."""
    subsets = subsets_of(service, pods)
    fitting = truncate_subsets(subsets)
    if fitting is not None:
        subsets = fitting
    labels, is_cut = labels_of(service), fitting is not None
    if current is not None and _is_right(current, subsets, labels, is_cut=is_cut):
        return None
    meta = service.metadata
    endpoints = (
        copy_of(current)
        if current is not None
        else Endpoints(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace))
    )
    endpoints.subsets, endpoints.metadata.labels = subsets, labels
    _annotate(endpoints.metadata.annotations, {LAST_CHANGE: changed_at, OVER_CAPACITY: "truncated" if is_cut else ""})
    return endpoints


def _is_right(endpoints: Endpoints, subsets: Sequence[object], labels: Mapping[str, str], *, is_cut: bool) -> bool:
    is_marked = OVER_CAPACITY in endpoints.metadata.annotations
    return endpoints.subsets == subsets and endpoints.metadata.labels == labels and is_marked == is_cut


def _annotate(annotations: dict[str, str], values: Mapping[str, str]) -> None:
    for key, value in values.items():
        if value:
            annotations[key] = value
        else:
            annotations.pop(key, None)


class EndpointsController:
    name = "endpoints-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder, feed: PodFeed) -> None:
        self._client, self._events, self._feed = client.for_kind(Endpoints), events, feed
        self._services = informers.for_kind(Service).lister
        self._pods = informers.for_kind(Pod).lister
        self._informer = informers.for_kind(Endpoints)
        self._times, self._writes = TriggerTimes(), OwnWrites()
        self._worker = WorkerThread("sampan-endpoints")
        self._deferred: set[NamespacedName] = set()
        """Services to sync again when the cache shows the last write of their Endpoints."""
        self._created: set[NamespacedName] = set()
        """Endpoints that were created and that the cache has not shown yet."""
        self.watches = (
            Watch(resource_of(Service), lambda service: (key_of(service),)),
            Watch(resource_of(Pod)),
            Watch(resource_of(Endpoints)),
        )

    def feed(self, add: Add) -> None:
        """Enqueue services on changes of pods and on deletion of Endpoints, and all existing Endpoints at start, in
        order to remove those whose service no longer exists."""
        self._feed.start(add)
        is_start, synced = True, self._informer.synced

        def on_endpoints_changed(old: Endpoints | None, new: Endpoints | None) -> None:
            self._writes.observe(old, new)
            if new is not None:
                self._created.discard(key_of(new))
            if new is None and old is not None:
                add(key_of(old))
            elif new is not None and key_of(new) in self._deferred and not self._writes.is_stale(new):
                self._deferred.discard(key_of(new))
                add(key_of(new))
            elif new is not None and _LEADER not in new.metadata.annotations and (is_start or not synced.is_set()):
                add(key_of(new))

        self._informer.subscribe(on_endpoints_changed)
        is_start = False

    async def reconcile(self, key: NamespacedName) -> float | None:
        service = self._services.get_by_key(key)
        if service is None:
            self._deferred.discard(key)
            self._created.discard(key)
            await self._remove(key)
            return None
        if not takes_pods(service):
            return None
        if wait_s := self._feed.wait_s(key):
            return wait_s
        pods, present = pods_of(service, self._pods), self._informer.lister.get_by_key(key)
        if present is not None and self._writes.is_stale(present):
            self._deferred.add(key)
            return None
        if present is None and key in self._created:
            self._created.discard(key)  # another client may have deleted the Endpoints before the cache showed them
            self._deferred.add(key)
            return _CREATION_TIMEOUT_S
        arguments = (service, pods, present, self._times.compute_trigger_time(service, pods))
        is_large = has_many(pods, service)
        endpoints = await self._worker.run(build_endpoints, *arguments) if is_large else build_endpoints(*arguments)
        if endpoints is not None:
            await self._write(endpoints, is_new=present is None)
        return None

    async def _remove(self, key: NamespacedName) -> None:
        self._times.forget(key)
        if self._informer.lister.get_by_key(key) is None:
            return
        try:
            await self._client.delete(key.name, key.namespace)
        except errors.NotFound:
            return

    async def _write(self, endpoints: Endpoints, *, is_new: bool) -> None:
        try:
            stored = await (self._client.create(endpoints) if is_new else self._client.update(endpoints))
            self._writes.record_write(stored)
            if self._informer.lister.get_by_key(key_of(stored)) is None:
                self._created.add(key_of(stored))
        except errors.ApiError as error:
            if is_new and error.has_cause(TERMINATING_CAUSE):
                return
            details = f"{endpoints.metadata.namespace}/{endpoints.metadata.name}: {error}"
            if is_new:
                self._record_event(
                    endpoints, "FailedToCreateEndpoint", f"Failed to create endpoint for service {details}"
                )
            else:
                self._record_event(endpoints, "FailedToUpdateEndpoint", f"Failed to update endpoint {details}")
            raise

    def _record_event(self, endpoints: Endpoints, reason: str, message: str) -> None:
        self._events.event(endpoints, WARNING, reason, message)


def make(context: ControllerContext) -> EndpointsController:
    batch_s = context.config.endpoint_updates_batch_period_s
    feed = PodFeed(informers=context.informers, clock=context.clock, batch_s=batch_s)
    return context.build(EndpointsController, feed=feed)
