"""The job controller, which maps changes to keys and collects the inputs of a sync."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import Selector
from sampan.api.semantics.owners import controller_of
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import OwnerReference
from sampan.api.values.times import format_time
from sampan.controllers.batch.job.conditions import is_finished
from sampan.controllers.batch.job.pod_changes import PodChanges
from sampan.controllers.batch.job.pod_state import (
    INDEXED,
    NON_INDEXED,
    TRACKING,
    JobFailures,
    is_ours,
    is_suspended,
    is_tracked,
)
from sampan.controllers.batch.job.sync import JobStatusWriter, JobSync
from sampan.controllers.batch.job.view import view_of
from sampan.controllers.ownership import (
    ClaimControl,
    Expectations,
    OwnerIndex,
    PodControl,
    candidates,
    claim,
)
from sampan.controllers.ownership.adoption import by_controller_or_orphan
from sampan.host.clock import Clock
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.copies import copy_of
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

WIDE = 10
"""The pod changes of a job with a higher parallelism than this are batched for `BATCH_S`."""
BATCH_S = 1.0


@dataclass(frozen=True, slots=True)
class OrphanPodKey:
    """Key of a pod that has the tracking finalizer but no job that would count it."""

    pod: NamespacedName


@dataclass(frozen=True, slots=True)
class DeletedJobKey:
    """Key for the pods of a deleted job, by the job's UID."""

    uid: str


@dataclass(frozen=True, slots=True)
class _JobMemory:
    """The state that is kept for a job between syncs."""

    failures: JobFailures
    generation: int
    looked: float
    """Monotonic time of the last sync."""


class JobController:
    name = "job-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, events: EventRecorder) -> None:
        pods, jobs = informers.for_kind(Pod), informers.for_kind(Job)
        self._pods, self._jobs = pods.lister, jobs.lister
        self._job_client, self._clock, self._events = client.for_kind(Job), clock, events
        self._owners = OwnerIndex(owners=self._jobs, kind="Job", selector=_selector)
        self._claims = ClaimControl(owners=self._job_client, objects=client.for_kind(Pod), finalizers=[TRACKING])
        self._writes, self._expectations = OwnWrites(), Expectations(clock=clock)
        control = PodControl(client=client, events=events)
        self._changes = PodChanges(client=client, control=control, expectations=self._expectations, writes=self._writes)
        self._known: dict[str, _JobMemory] = {}
        self._pods.add_index(by_controller_or_orphan)
        self._expectations.follow(pods, jobs)
        for informer in (pods, jobs):
            self._writes.follow(informer)
        jobs.subscribe(self._forget_job)
        self.watches = (Watch(resource_of(Job), self._job_keys), Watch(resource_of(Pod), self._pod_keys))

    async def reconcile(self, key: NamespacedName | OrphanPodKey | DeletedJobKey) -> float | None:
        if isinstance(key, OrphanPodKey):
            pod = self._pods.get_by_key(key.pod)
            await self._release([pod] if pod is not None and self._is_orphaned(pod) else [])
            return None
        if isinstance(key, DeletedJobKey):
            await self._release(self._pods.find(by_controller_or_orphan, key.uid))
            return None
        job = self._jobs.get_by_key(key)
        if job is None or not is_ours(job) or self._writes.is_stale(job):
            return None
        if is_finished(job):
            self._known.pop(job.metadata.uid, None)
            await self._release(self._pods.find(by_controller_or_orphan, job.metadata.uid))
            return None
        return await self._sync(job)

    async def _sync(self, shared: Job) -> float | None:
        if shared.spec.completionMode not in (None, INDEXED, NON_INDEXED):
            message = "Skipped Job sync because completion mode is unknown"
            self._events.event(shared, WARNING, "UnknownCompletionMode", message)
            return None
        uid, now = shared.metadata.uid, self._clock.now()
        memory = self._known.get(uid)
        if (pause_s := _pause_s(shared, memory, self._clock.monotonic())) > 0:
            return pause_s
        is_caught_up = self._expectations.is_satisfied(uid)
        pods = await self._claim_pods(shared)
        job = msgspec.structs.replace(shared, status=copy_of(shared.status))
        writer = JobStatusWriter(job=job, present=shared.status, jobs=self._job_client, writes=self._writes)
        if job.status.startTime is None and not is_suspended(job):
            job.status.startTime = format_time(now)
        released = {pod.metadata.uid for pod in pods if self._writes.is_stale(pod)}
        failures = memory.failures if memory is not None else JobFailures()
        view = view_of(job, pods, released=released, failures=failures, now=now)
        sync = JobSync(view=view, is_caught_up=is_caught_up, changes=self._changes, writer=writer, events=self._events)
        try:
            again_s = await sync.run()
        finally:
            if sync.has_named:
                self._known[uid] = _JobMemory(view.failures, shared.metadata.generation, self._clock.monotonic())
        return again_s if is_caught_up else _sooner(again_s, self._expectations.expires_in(uid))

    async def _claim_pods(self, job: Job) -> list[Pod]:
        owned = await claim(job, _selector(job), candidates(self._pods, job), self._claims)
        return [pod if controller_of(pod) is not None else _with_tracking_finalizer(pod) for pod in owned]

    async def _release(self, pods: Iterable[Pod]) -> None:
        """Remove the tracking finalizers without counting the pods."""
        tracked_pods = [pod for pod in pods if is_tracked(pod) and not self._writes.is_stale(pod)]
        _, error = await self._changes.release(tracked_pods)
        if error is not None:
            raise error

    # -- keys of changed objects ---------------------------------------------------------------------------------------

    def _job_keys(self, job: Any) -> Iterable[Hashable]:
        key = key_of(job)
        present = self._jobs.get_by_key(key)
        if present is None or present.metadata.uid != job.metadata.uid:
            yield DeletedJobKey(job.metadata.uid)
        yield key

    def _pod_keys(self, pod: Any) -> Iterable[Hashable]:
        if is_tracked(pod) and self._is_orphaned(pod):
            yield OrphanPodKey(key_of(pod))
        yield from self._owners.keys(pod)

    def _is_orphaned(self, pod: Pod) -> bool:
        """Whether no job will count the pod: it has none, or its job is deleted or finished."""
        reference = controller_of(pod)
        if reference is None:
            return True
        if not _is_job(reference):
            return False
        job = self._jobs.get(reference.name, pod.metadata.namespace)
        return job is None or job.metadata.uid != reference.uid or (is_ours(job) and is_finished(job))

    def _forget_job(self, old: Any | None, new: Any | None) -> None:
        if new is None and old is not None:
            self._known.pop(old.metadata.uid, None)


def _selector(job: Job) -> Selector:
    return selector_of(job.spec.selector)


def _is_job(reference: OwnerReference) -> bool:
    return reference.kind == "Job" and reference.apiVersion == "batch/v1"


def _with_tracking_finalizer(pod: Pod) -> Pod:
    """Return the pod with the tracking finalizer that its adoption has added on the server."""
    finalizers = list(dict.fromkeys((*pod.metadata.finalizers, TRACKING)))
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, finalizers=finalizers))


def _pause_s(job: Job, memory: _JobMemory | None, now: float) -> float:
    """Return the seconds to wait for more pod changes of a highly parallel job; changes of the job are not delayed."""
    if memory is None or memory.generation != job.metadata.generation or (job.spec.parallelism or 0) <= WIDE:
        return 0.0
    return memory.looked + BATCH_S - now


def _sooner(first_s: float | None, second_s: float | None) -> float | None:
    return min((wait for wait in (first_s, second_s) if wait is not None), default=None)
