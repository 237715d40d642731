"""Creation and deletion of pods with their events, slow-start batches of requests, and the backoff of replacements
for failed pods."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sampan.api import names
from sampan.api.semantics.owners import new_controller_ref
from sampan.api.types.core_v1 import Pod, PodSpec, PodTemplateSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.host.backoff import Backoff, FailureBackoff
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.events import NORMAL, WARNING, EventRecorder

FIRST = 1
"""The default size of the first batch."""
BURST = 500
"""The maximum number of pods created or deleted in one sync, as in Kubernetes. The rest follows in later syncs."""


class BatchResult(NamedTuple):
    successes: int
    error: Exception | None = None
    """The first error of the last batch."""


async def slow_start(count: int, first: int, step: Callable[[int], Awaitable[Any]]) -> BatchResult:
    """Call `step(0)` to `step(count - 1)` in concurrent batches: `first` calls, then twice as many, and so on.

    No further batch is started after one with an error.
    """
    done, size = 0, min(first, count)
    while size > 0:
        failures = [error for error in await _run_batch(done, size, step) if error is not None]
        if failures:
            return BatchResult(done + size - len(failures), failures[0])
        done += size
        size = min(2 * size, count - done)
    return BatchResult(done)


async def _run_batch(start: int, size: int, step: Callable[[int], Awaitable[Any]]) -> list[Exception | None]:
    if size == 1:
        return [await _run_step(step, start)]
    return await asyncio.gather(*(_run_step(step, index) for index in range(start, start + size)))


async def run_concurrently(count: int, step: Callable[[int], Awaitable[Any]]) -> Exception | None:
    """Call `step(0)` to `step(count - 1)` concurrently. All of them run; the first error is returned."""
    if not count:
        return None
    return next((error for error in await _run_batch(0, count, step) if error is not None), None)


async def _run_step(step: Callable[[int], Awaitable[Any]], index: int) -> Exception | None:
    """Return the error of a step. The step starts here, so that none is left unstarted if the batch is cancelled."""
    try:
        await step(index)
    except Exception as error:
        return error
    return None


INITIAL_BACKOFF_S, MAX_BACKOFF_S = 1.0, 900.0
_MAX_FAILURES = 1000


class ReplacementBackoff:
    """The backoff of each key, such as a node, whose failed pods are replaced. All times are monotonic."""

    def __init__(self, max_s: float = MAX_BACKOFF_S) -> None:
        self._backoff, self._reset_s = Backoff(INITIAL_BACKOFF_S, max_s), 2 * max_s
        self._failures: dict[str, FailureBackoff] = {}

    def remaining_s(self, key: str, now: float) -> float:
        """Return the seconds until the failed pod with this key may be replaced."""
        failure = self._failures.get(key)
        return 0.0 if failure is None else failure.remaining_s(failure.since, now)

    def note(self, key: str, now: float) -> None:
        """Record that a failed pod was replaced, which doubles the backoff of the next replacement."""
        failure = self._failures.get(key)
        if failure is None:
            self._forget(now)
            failure = self._failures[key] = FailureBackoff(self._backoff, self._reset_s)
        failure.lengthen(now, now)

    def _forget(self, now: float) -> None:
        if len(self._failures) >= _MAX_FAILURES:
            current = ((key, failure) for key, failure in self._failures.items() if not failure.is_forgotten(now))
            self._failures = dict(current)


SUCCESSFUL_CREATE, FAILED_CREATE = "SuccessfulCreate", "FailedCreate"
SUCCESSFUL_DELETE, FAILED_DELETE = "SuccessfulDelete", "FailedDelete"


def name_prefix(owner_name: str) -> str:
    """Return the generateName prefix for the owner's pods: its name with a dash, if that is a valid prefix."""
    dashed = f"{owner_name}-"
    return owner_name if names.dns1123_subdomain(dashed, prefix=True) else dashed


def pod_from(
    template: PodTemplateSpec,
    owner: Any,
    *,
    name: str = "",
    generate_name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    spec: PodSpec | None = None,
) -> Pod:
    """Return a pod from the template, controlled by the owner.

    `labels`, `annotations` and `finalizers` are added to those of the template; `spec` replaces its spec. The pod
    shares structure with the template and must not be modified.
    """
    meta = template.metadata
    return Pod(
        metadata=ObjectMeta(
            name=name,
            generateName="" if name else generate_name or name_prefix(owner.metadata.name),
            namespace=owner.metadata.namespace,
            labels={**meta.labels, **(labels or {})},
            annotations={**meta.annotations, **(annotations or {})},
            finalizers=list(dict.fromkeys((*meta.finalizers, *finalizers))),
            ownerReferences=[new_controller_ref(owner)],
        ),
        spec=spec or template.spec,
    )


class PodControl:
    def __init__(self, *, client: Client, events: EventRecorder) -> None:
        self._pods, self._events = client.for_kind(Pod), events

    async def create(self, template: PodTemplateSpec, namespace: str, owner: Any, **changes: Any) -> Pod:
        """Create a pod from the template for the owner; `changes` are passed to `pod_from`."""
        return await self.create_pod(pod_from(template, owner, **changes), owner, namespace)

    async def create_pod(self, pod: Pod, owner: Any, namespace: str = "") -> Pod:
        if not pod.metadata.labels:
            raise errors.BadRequest("unable to create pods, no labels")
        try:
            created = await self._pods.create(pod, namespace)
        except errors.ApiError as error:
            if not is_namespace_terminating(error):
                self._events.event(owner, WARNING, FAILED_CREATE, f"Error creating: {error}")
            raise
        self._events.event(owner, NORMAL, SUCCESSFUL_CREATE, f"Created pod: {created.metadata.name}")
        return created

    async def delete(self, pod: Pod, owner: Any) -> None:
        """Delete the pod and record an event; raise NotFound, without an event, if it does not exist."""
        name = pod.metadata.name
        try:
            await self._pods.delete(name, pod.metadata.namespace)
        except errors.NotFound:
            raise
        except errors.ApiError as error:
            self._events.event(owner, WARNING, FAILED_DELETE, f"Error deleting: {error}")
            raise
        self._events.event(owner, NORMAL, SUCCESSFUL_DELETE, f"Deleted pod: {name}")
