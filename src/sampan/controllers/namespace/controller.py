"""The controller, which carries out what `content` and `conditions` decide."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any

from sampan.api import times
from sampan.api.resource import Resource
from sampan.api.types.core_v1 import Namespace, Pod
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.namespace import content
from sampan.controllers.namespace.content import DeletionResult
from sampan.controllers.namespaces import TERMINATING, namespace_name
from sampan.machinery import errors
from sampan.machinery.client import Client, Delete, Selection, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.clock import Clock
from sampan.machinery.controller import NotYet, Watch
from sampan.machinery.copies import copy_of

FINALIZER = "kubernetes"
Discover = Callable[[], Awaitable[tuple[Sequence[Resource], str]]]
"""Return the served resources, each in one version, and the discovery failure (empty if there was none)."""

_TOGETHER = 10
"""The number of resources that are emptied concurrently."""
_IN_BACKGROUND = Delete(propagation="Background")


def _if_deleted(namespace: Any) -> Iterable[Hashable]:
    return namespace_name(namespace) if namespace.metadata.deletionTimestamp is not None else ()


class NamespaceController:
    name = "namespace-controller"

    def __init__(self, *, client: Client, discover: Discover, clock: Clock, settle_s: float = 0) -> None:
        """Create the controller.

        `settle_s` is the delay after the deletion of a namespace. If several API servers share a store, one of them may
        briefly still admit objects into it.
        """
        self._client, self._discover, self._clock = client, discover, clock
        self._namespaces, self._pods = client.of(Namespace), client.of(Pod)
        self._settle_s = settle_s
        self.watches = (Watch(resource_of(Namespace), _if_deleted),)

    async def reconcile(self, key: str) -> float | None:
        try:
            namespace = await self._namespaces.get(key)
            if namespace.metadata.deletionTimestamp is None or not namespace.spec.finalizers:
                return None
            deleted_for_s = self._clock.now() - times.parse_time(namespace.metadata.deletionTimestamp)
            if deleted_for_s < self._settle_s:
                return self._settle_s - deleted_for_s
            namespace = await self._mark(namespace)
            outcome = await self._empty(key, deleted_for_s)
            namespace = await self._write_conditions(namespace, outcome)
            if not outcome.is_empty:
                return self._look_again_s(outcome, deleted_for_s)
            await self._finalize(namespace)
        except errors.NotFound:
            return None
        return None

    async def _mark(self, namespace: Namespace) -> Namespace:
        if namespace.status.phase == TERMINATING:
            return namespace
        changed = copy_of(namespace)
        changed.status.phase = TERMINATING
        return await self._namespaces.update_status(changed)

    async def _empty(self, namespace: str, deleted_for_s: float) -> DeletionResult:
        resources, failure = await self._discover()
        outcome = DeletionResult(discovery_failure=failure)
        first, rest = content.in_order(resources)
        for resource in first:
            pods = (await self._pods.list(Selection(namespace=namespace))).items
            grace_s = content.grace_left_s(pods, deleted_for_s)
            await self._remove(resource, namespace, outcome, grace_s)
        if not outcome.remaining:
            await self._remove_all(rest, namespace, outcome)
        return outcome

    async def _remove_all(self, resources: Sequence[Resource], namespace: str, outcome: DeletionResult) -> None:
        limit = asyncio.Semaphore(_TOGETHER)

        async def remove(resource: Resource) -> None:
            async with limit:
                await self._remove(resource, namespace, outcome, 0)

        async with asyncio.TaskGroup() as group:
            for resource in resources:
                group.create_task(remove(resource))

    async def _remove(self, resource: Resource, namespace: str, outcome: DeletionResult, grace_s: int) -> None:
        """Delete all objects of a resource and record errors in the outcome."""
        objects, selection = self._client.metadata(resource), Selection(namespace=namespace)
        try:
            present = (await objects.list(selection)).items
            if present:
                await self._delete(resource, present, namespace)
                outcome.note(resource, (await objects.list(selection)).items, namespace, grace_s)
        except (errors.NotFound, errors.MethodNotSupported):
            return  # The resource is no longer served, or does not support the request.
        except errors.ApiError as error:
            outcome.fail(str(error))

    async def _delete(self, resource: Resource, items: Sequence[Any], namespace: str) -> None:
        objects = self._client.metadata(resource)
        if "deletecollection" in resource.verbs:
            return await objects.delete_collection(Selection(namespace=namespace), options=_IN_BACKGROUND)
        for obj in items:
            try:
                await objects.delete(obj.metadata.name, namespace, options=_IN_BACKGROUND)
            except errors.NotFound:
                continue

    async def _write_conditions(self, namespace: Namespace, outcome: DeletionResult) -> Namespace:
        desired = content.updated(namespace.status.conditions, outcome, times.format_time(self._clock.now()))
        if desired is None:
            return namespace
        changed = copy_of(namespace)
        changed.status.conditions = desired
        return await self._namespaces.update_status(changed)

    def _look_again_s(self, outcome: DeletionResult, deleted_for_s: float) -> float:
        if reason := outcome.discovery_failure or "; ".join(outcome.failures):
            message = f"cannot delete the content of the namespace: {reason}"
            is_trouble = outcome.has_failed or bool(outcome.discovery_failure)
            raise errors.unexpected(message) if is_trouble else NotYet(message)
        return content.look_again_s(outcome.estimate_s, deleted_for_s)

    async def _finalize(self, namespace: Namespace) -> None:
        changed = copy_of(namespace)
        changed.spec.finalizers = content.without_finalizer(namespace.spec.finalizers, FINALIZER)
        if changed.spec.finalizers != namespace.spec.finalizers:
            await self._namespaces.update(changed, subresource="finalize")


def make(context: ControllerContext) -> NamespaceController:
    client = context.client
    return context.build(
        NamespaceController,
        client=client,
        discover=Discovery(client).preferred,
        settle_s=context.config.namespace_settle_s,
    )
