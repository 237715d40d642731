"""One sync of one job: create, delete and count its pods, and write its status."""

import msgspec

from sampan.api.types.batch_v1 import Job, JobCondition, JobStatus
from sampan.api.types.core_v1 import Pod
from sampan.api.values.times import format_time
from sampan.controllers.batch.job.conditions import COMPLETE, FINAL, SUSPENDED, condition, ensure, make_final_condition
from sampan.controllers.batch.job.finish import deadline_s, finish_condition, is_complete, make_success_met_condition
from sampan.controllers.batch.job.parallelism import pods_wanted
from sampan.controllers.batch.job.pod_changes import PodChangeResult, PodChanges
from sampan.controllers.batch.job.pod_state import is_suspended
from sampan.controllers.batch.job.pod_tracker import count_recorded_pods, is_all_counted, record_pods_to_count
from sampan.controllers.batch.job.view import JobView
from sampan.machinery.client import ResourceClient
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.copies import copy_of
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import NORMAL, WARNING, EventRecorder


class JobStatusWriter:
    """Writes the status of a job if it differs from the status on the server."""

    def __init__(self, *, job: Job, present: JobStatus, jobs: ResourceClient[Job], writes: OwnWrites) -> None:
        """Create a writer for `job`, whose status the caller may change in place. `present` is the status on the
        server."""
        self.job, self._written, self._jobs, self._writes = job, present, jobs, writes

    async def write(self) -> None:
        job = self.job
        if job.status == self._written:
            return
        updated = await self._jobs.update_status(job)
        self._writes.record_write(updated)
        self._written = copy_of(job.status)
        self.job = msgspec.structs.replace(job, metadata=updated.metadata)


class JobSync:
    """One sync of one job. `run` performs it and returns the seconds until the next one."""

    def __init__(
        self, *, view: JobView, is_caught_up: bool, changes: PodChanges, writer: JobStatusWriter, events: EventRecorder
    ) -> None:
        """Create a sync. `is_caught_up` is true if the view includes all pods that were created before."""
        self._view, self._is_caught_up = view, is_caught_up
        self._changes, self._writer, self._events = changes, writer, events
        self.has_named = False
        """Whether the status lists the pods to be counted, so that their failures will not appear new in the next sync.
        """
        self._wait_s: float | None = None
        self._finished: JobCondition | None = None
        """The condition that decides the outcome of the job, or None while it must not be published."""

    @property
    def _status(self) -> JobStatus:
        return self._writer.job.status

    async def run(self) -> float | None:
        self._finished = finish_condition(self._view)
        effect = await (self._manage() if self._finished is None else self._terminate_pods())
        status = self._status
        status.active, status.ready, status.terminating = effect.active, effect.ready, effect.terminating
        await self._count(effect)
        if effect.error is not None:
            raise effect.error
        waits = (self._wait_s, deadline_s(self._writer.job, self._view.now))
        return min((wait for wait in waits if wait is not None and wait > 0), default=None)

    async def _terminate_pods(self) -> PodChangeResult:
        effect = await self._changes.end(self._view)
        if effect.active or not self._is_caught_up:
            self._finished = None  # Some pods may not have been deleted yet.
        return effect

    async def _manage(self) -> PodChangeResult:
        view, job = self._view, self._view.job
        may_act = self._is_caught_up and job.metadata.deletionTimestamp is None
        effect = PodChangeResult(len(view.active), view.terminating, view.ready)
        if may_act:
            plan = pods_wanted(view)
            self._wait_s = plan.wait_s
            if plan.create or plan.remove:
                have = f"{len(view.active)} active, {view.succeeded} succeeded"
                action = f"create {len(plan.create)}, delete {len(plan.remove)}"
                note_decision(f"{job.spec.parallelism} pods at a time", have, action)
            effect = await self._changes.carry_out(view, plan)
        if is_complete(job, view.succeeded, effect.active):
            self._finished = make_success_met_condition(view.now)
        elif may_act:
            self._note_suspension()
        return effect

    def _note_suspension(self) -> None:
        job, now, status = self._view.job, self._view.now, self._status
        if is_suspended(job):
            if ensure(status.conditions, condition(SUSPENDED, "JobSuspended", "Job suspended", now)):
                self._events.event(job, NORMAL, "Suspended", "Job suspended")
                status.startTime = None
        elif ensure(status.conditions, condition(SUSPENDED, "JobResumed", "Job resumed", now, is_true=False)):
            self._events.event(job, NORMAL, "Resumed", "Job resumed")
            status.startTime = format_time(now)

    async def _count(self, effect: PodChangeResult) -> None:
        """Count the finished pods, then finish the job if its outcome is decided and all pods are counted."""
        uncounted = {pod.metadata.uid for pod in self._view.tracked}
        count_recorded_pods(self._status, uncounted)
        batch = record_pods_to_count(self._view, self._finished, self._status)
        finished = self._set_interim_condition()
        await self._writer.write()
        self.has_named = True
        error = await self._release(batch.release, uncounted)
        if error is not None:
            await self._writer.write()
            raise error
        is_over = finished is not None and not batch.is_full and effect.terminating == 0
        if finished is not None and is_over and is_all_counted(self._status):
            await self._finish(finished)
        else:
            await self._writer.write()

    def _set_interim_condition(self) -> JobCondition | None:
        """Publish the interim condition, which precedes the termination of the pods; return the terminal condition."""
        if self._finished is None:
            return None
        if self._finished.type in FINAL:
            ensure(self._status.conditions, self._finished)
        return make_final_condition(self._finished, self._view.now)

    async def _release(self, pods: list[Pod], uncounted: set[str]) -> Exception | None:
        released, error = await self._changes.release(pods)
        count_recorded_pods(self._status, uncounted - released)
        return error

    async def _finish(self, finished: JobCondition) -> None:
        status = self._status
        ensure(status.conditions, finished)
        if finished.type == COMPLETE:
            status.completionTime = finished.lastTransitionTime
        await self._writer.write()
        self._record_finish_event(finished)

    def _record_finish_event(self, finished: JobCondition) -> None:
        job = self._writer.job
        if finished.type != COMPLETE:
            self._events.event(job, WARNING, finished.reason, finished.message)
            return
        if job.spec.completions is not None and job.status.succeeded > job.spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            self._events.event(job, WARNING, "TooManySucceededPods", message)
        self._events.event(job, NORMAL, "Completed", "Job completed")
