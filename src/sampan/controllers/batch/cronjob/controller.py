"""The CronJob controller, which maintains the list of active jobs, starts jobs and removes old ones."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import msgspec

from sampan.api.semantics.owners import controller_of, is_controlled_by
from sampan.api.types.batch_v1 import CronJob, Job
from sampan.api.types.core_v1 import ObjectReference
from sampan.api.values.cron import ScheduleError
from sampan.api.values.times import format_time, parse_time
from sampan.controllers.batch.cronjob.decision import (
    decide,
    job_for,
    jobs_over_history_limits,
    parse_cron_schedule,
    zone_of,
)
from sampan.controllers.batch.cronjob.due import wait_s
from sampan.controllers.batch.job.conditions import finished_condition, has_succeeded
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.copies import copy_of
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import NORMAL, WARNING, EventRecorder, reference
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

_BACKGROUND = DeleteParameters(propagation="Background")
_Timing = tuple[str, str | None]
"""The schedule and the time zone of a CronJob."""


def by_cron_job(job: Any) -> Iterable[Hashable]:
    owner = controller_of(job)
    return (
        (NamespacedName(job.metadata.namespace, owner.name),) if owner is not None and owner.kind == "CronJob" else ()
    )


class CronJobController:
    name = "cronjob-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, events: EventRecorder) -> None:
        self._cron_client, self._job_client = client.for_kind(CronJob), client.for_kind(Job)
        self._crons, self._jobs = informers.for_kind(CronJob).lister, informers.for_kind(Job).lister
        self._clock, self._events, self._writes = clock, events, OwnWrites()
        self._timings: dict[str, _Timing] = {}
        """The timing at the last reconcile, by UID of the CronJob."""
        self._jobs.add_index(by_cron_job)
        self._writes.follow(informers.for_kind(CronJob))
        informers.for_kind(CronJob).subscribe(self._forget_timing)
        self.watches = (Watch(resource_of(CronJob), lambda cron: [key_of(cron)]), Watch(resource_of(Job), by_cron_job))

    async def reconcile(self, key: NamespacedName) -> float | None:
        shared = self._crons.get_by_key(key)
        if shared is None or self._writes.is_stale(shared):
            return None
        if self._record_timing(shared):
            return self._compute_wait_s(shared)
        cron = msgspec.structs.replace(shared, status=copy_of(shared.status))
        jobs = [job for job in self._jobs.find(by_cron_job, key) if is_controlled_by(job, cron)]
        await self._clean_up(cron, jobs)
        failure: errors.ApiError | None = None
        again_s: float | None = None
        try:
            again_s = await self._sync(cron, jobs)
        except errors.ApiError as error:
            failure = error  # Changes made before the error must still be written to the status.
        if cron.status != shared.status:
            self._writes.record_write(await self._cron_client.update_status(cron))
        if failure is not None:
            raise failure
        return again_s

    async def _sync(self, cron: CronJob, jobs: Sequence[Job]) -> float | None:
        await self._check_active(cron, jobs)
        decision = decide(cron, self._clock.now())
        for event in decision.events:
            self._events.event(cron, event.type, event.reason, event.message)
        if decision.start is not None:
            have = f"{len(cron.status.active)} active"
            note_decision(f"a job for {format_time(decision.start)}", have, "start it")
        if decision.start is not None and not await self._start(cron, decision.start):
            return None
        return decision.again_s

    # -- changed schedule --------------------------------------------------------------------------------------------

    def _record_timing(self, cron: CronJob) -> bool:
        """Record the schedule and time zone, and return whether they have changed since the last reconcile.

        A changed schedule applies from its next time on; its times before now are not made up for.
        """
        timing = (cron.spec.schedule, cron.spec.timeZone)
        previous = self._timings.setdefault(cron.metadata.uid, timing)
        self._timings[cron.metadata.uid] = timing
        return previous != timing

    def _compute_wait_s(self, cron: CronJob) -> float | None:
        try:
            return wait_s(cron, self._clock.now(), parse_cron_schedule(cron))
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {cron.spec.schedule}"
            self._events.event(cron, WARNING, "UnParseableCronJobSchedule", message)
            return None

    def _forget_timing(self, old: Any | None, new: Any | None) -> None:
        if new is None and old is not None:
            self._timings.pop(old.metadata.uid, None)

    # -- active jobs -------------------------------------------------------------------------------------------------

    async def _check_active(self, cron: CronJob, jobs: Sequence[Job]) -> None:
        for job in jobs:
            await self._check_job(cron, job)
        present = {job.metadata.uid for job in jobs}
        for active in list(cron.status.active):
            if active.uid not in present and await self._is_gone(active):
                self._events.event(cron, NORMAL, "MissingJob", f"Active job went missing: {active.name}")
                _drop(cron, active.uid)

    async def _check_job(self, cron: CronJob, job: Job) -> None:
        finished, is_listed = finished_condition(job), _is_listed(cron, job)
        if finished is None:
            if not is_listed and not await self._is_listed_by_server(cron, job):
                message = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
                self._events.event(cron, WARNING, "UnexpectedJob", message)
            return
        if is_listed:
            _drop(cron, job.metadata.uid)
            message = f"Saw completed job: {job.metadata.name}, condition: {finished.type}"
            self._events.event(cron, NORMAL, "SawCompletedJob", message)
        if has_succeeded(job):
            _note_success(cron, job)

    async def _is_listed_by_server(self, cron: CronJob, job: Job) -> bool:
        """Whether the CronJob on the API server lists the job; the cached CronJob may be stale."""
        fresh = await self._cron_client.get(cron.metadata.name, cron.metadata.namespace)
        return _is_listed(fresh, job)

    async def _is_gone(self, active: ObjectReference) -> bool:
        try:
            await self._job_client.get(active.name, active.namespace)
        except errors.NotFound:
            return True
        return False

    # -- starting and removing jobs ----------------------------------------------------------------------------------

    async def _start(self, cron: CronJob, time: float) -> bool:
        """Start the job for a scheduled time. Return whether the job was added to the status."""
        if cron.spec.concurrencyPolicy == "Replace":
            await self._replace(cron)
        job = job_for(cron, time, zone_of(cron))
        try:
            created = await self._job_client.create(job)
        except errors.AlreadyExists:
            created = await self._job_client.get(job.metadata.name, job.metadata.namespace)
            if not is_controlled_by(created, cron) or _is_listed(cron, created):
                return False
        except errors.ApiError as error:
            if not is_namespace_terminating(error):
                self._events.event(cron, WARNING, "FailedCreate", f"Error creating job: {error}")
            raise
        else:
            self._events.event(cron, NORMAL, "SuccessfulCreate", f"Created job {created.metadata.name}")
        cron.status.active.append(reference(created))
        cron.status.lastScheduleTime = format_time(time)
        return True

    async def _replace(self, cron: CronJob) -> None:
        for active in list(cron.status.active):
            try:
                job = await self._job_client.get(active.name, active.namespace)
            except errors.ApiError as error:
                self._events.event(cron, WARNING, "FailedGet", f"Get job: {error}")
                raise
            await self._delete(cron, job)

    async def _clean_up(self, cron: CronJob, jobs: Sequence[Job]) -> None:
        for job in jobs_over_history_limits(cron, jobs):
            try:
                await self._delete(cron, job)
            except errors.ApiError:
                continue  # The error was recorded as an event; the next sync retries.

    async def _delete(self, cron: CronJob, job: Job) -> None:
        try:
            await self._job_client.delete(job.metadata.name, job.metadata.namespace, options=_BACKGROUND)
        except errors.NotFound:
            return  # The job is already deleted and the cache is stale.
        except errors.ApiError as error:
            self._events.event(cron, WARNING, "FailedDelete", f"Deleted job: {error}")
            raise
        _drop(cron, job.metadata.uid)
        self._events.event(cron, NORMAL, "SuccessfulDelete", f"Deleted job {job.metadata.name}")


def _is_listed(cron: CronJob, job: Job) -> bool:
    return any(active.uid == job.metadata.uid for active in cron.status.active)


def _drop(cron: CronJob, uid: str) -> None:
    cron.status.active = [active for active in cron.status.active if active.uid != uid]


def _note_success(cron: CronJob, job: Job) -> None:
    done, last = job.status.completionTime, cron.status.lastSuccessfulTime
    if done is not None and (last is None or parse_time(done) > parse_time(last)):
        cron.status.lastSuccessfulTime = done
