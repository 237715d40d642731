"""The threads in which requests process large objects, and which of them a request uses."""

from __future__ import annotations

from sampan.api import limits
from sampan.api.resources.resource import Resource
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.request import bodies
from sampan.apiserver.request.call import MASTERS, Call, UserInfo
from sampan.machinery.fair_worker import FairWorker, UserWorker


class ObjectWorkers:
    """There are several threads, by the time that a job may take, so that short jobs do not wait for long ones."""

    def __init__(self, registry: Registry) -> None:
        self._registry, freed = registry, registry.memory_trimmer.record_freed
        self._small = FairWorker("sampan-small-object", freed=freed)
        """Handles small YAML bodies, long selectors and small objects with CEL expressions."""
        self._large = FairWorker("sampan-large-object", freed=freed)
        self._huge = FairWorker("sampan-huge-object", freed=freed)
        """Handles what may take a second."""
        self._conversion = FairWorker("sampan-conversion", freed=freed)
        """Handles objects that a webhook converts, which may block it."""

    def for_call(self, call: Call) -> UserWorker | None:
        """Return the worker for the body of the request, or None if the event loop may process it."""
        size = len(call.body)
        if call.resource is not None and self._is_converted_by_webhook(call.resource):
            return _share(self._conversion, call.user, size)
        if size > limits.INLINE_BODY_BYTES:
            is_huge = size > limits.LARGE_BODY_BYTES or bodies.is_yaml(call)
            return _share(self._huge if is_huge else self._large, call.user, size)
        if bodies.is_large(call) or self._has_many_expressions(call.resource, size):
            return _share(self._small, call.user, size)
        return None

    def for_growing_patch(self, call: Call) -> UserWorker:
        """Return the worker for a small patch that may copy large parts of an object."""
        return _share(self._small, call.user, len(call.body))

    def for_stored(self, worker: UserWorker | None, user: UserInfo, resource: Resource, size: int) -> UserWorker | None:
        """Return the worker for a request that changes a stored object of that size; `worker` is the one for its
        body."""
        if worker is not None and worker.worker in (self._conversion, self._huge):
            return worker
        if size > limits.INLINE_OBJECT_BYTES:
            return _share(self._huge if size > limits.LARGE_BODY_BYTES else self._large, user, size)
        if worker is None and self._has_many_expressions(resource, size):
            return _share(self._small, user, size)
        return worker

    def for_query(self, call: Call) -> UserWorker | None:
        """Return the worker for the options of the request, or None if the event loop may parse them."""
        size = len(call.query.get("labelSelector")) + len(call.query.get("fieldSelector")) if call.query else 0
        return _share(self._small, call.user, size) if size > limits.INLINE_SELECTOR_CHARACTERS else None

    def for_schemas(self) -> UserWorker:
        """Return the worker that compiles schemas of custom resources."""
        return UserWorker(self._small, "", is_limited=False)

    def _is_converted_by_webhook(self, resource: Resource) -> bool:
        version = self._registry.behavior(resource).stored_version if resource.is_custom else None
        return version is not None and version.conversion.needs_request

    def _has_many_expressions(self, resource: Resource | None, size: int) -> bool:
        """Whether an object of that size may contain CEL expressions that take too long to compile."""
        if size <= limits.INLINE_EXPRESSIONS_BYTES or resource is None:
            return False
        return self._registry.behavior(resource).strategy.has_expressions


def _share(worker: FairWorker, user: UserInfo, size: int) -> UserWorker:
    return UserWorker(worker, user.name, size, is_limited=MASTERS not in user.groups)
