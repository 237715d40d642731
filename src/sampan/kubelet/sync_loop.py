"""The sync loop turns changes of pods and of runtime reports into work on one pod at a time.

`iteration` takes a change from the pod source and passes it to `handle_pod_additions`, `handle_pod_updates` or
`handle_pod_removes`, which record it and add the pod to the queue. A worker calls `update_pod`, which runs `sync_pod`
while the pod should run, `sync_terminating_pod` while its containers are being stopped, and `sync_terminated_pod` once
none of them runs any more. Counterparts in `pkg/kubelet`: `syncLoop` and the pod workers.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from sampan.api.semantics.pods import find_container, termination_grace_period_s
from sampan.api.types.core_v1 import Container, Pod
from sampan.host.clock import Clock
from sampan.host.time_slice import TimeSlice
from sampan.kubelet.admission import PodAdmitter
from sampan.kubelet.cancellation import run_until
from sampan.kubelet.container_starter import ContainerStarter
from sampan.kubelet.metrics import KubeletMetrics
from sampan.kubelet.pod_actions import (
    compute_pod_actions,
    ephemeral_to_start,
    restarts_all,
    stop_order,
)
from sampan.kubelet.pod_conditions import PENDING, RUNNING, TERMINAL
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_lifecycle import ContainerKill, PodLifecycle
from sampan.kubelet.pod_status import (
    DEADLINE_EXCEEDED,
    StatusInputs,
    deadline_left_s,
    final_status,
    generate_status,
    may_run,
)
from sampan.kubelet.records import (
    ACTIVE,
    ENDED_STATES,
    MAX_BACKOFF_S,
    NodeRecord,
    PodQueue,
    PodRecord,
    PodSyncState,
    Records,
)
from sampan.kubelet.status_manager import StatusManager
from sampan.machinery.events import NORMAL, WARNING
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport

log = logging.getLogger(__name__)

_ALIVE = (contract.RUNNING, contract.CREATED)
_PROGRESS_S = 5.0


class SyncLoop:
    """Sync loop of one node, or of all nodes of a hollow fleet. A pod is never synced by two workers at once."""

    def __init__(
        self,
        *,
        lifecycle: PodLifecycle,
        records: Records,
        queue: PodQueue,
        statuses: StatusManager,
        events: PodEvents,
        clock: Clock,
        workers: int,
        longest_pause_s: float = MAX_BACKOFF_S,
        metrics: KubeletMetrics | None = None,
    ) -> None:
        self._lifecycle, self._records, self._queue = lifecycle, records, queue
        self._statuses, self._events, self._clock = statuses, events, clock
        self._starter = ContainerStarter(
            lifecycle=lifecycle, clock=clock, events=events, longest_pause_s=longest_pause_s
        )
        self._admitter = PodAdmitter(
            lifecycle=lifecycle, records=records, statuses=statuses, events=events, clock=clock
        )
        self._workers = workers
        self._metrics = metrics or KubeletMetrics()
        self._termination_listeners: list[Callable[[PodRecord], None]] = []

    def on_terminated(self, listener: Callable[[PodRecord], None]) -> None:
        """Register `listener`, which is called for each pod of which nothing is left on the node."""
        self._termination_listeners.append(listener)

    # -- changes -----------------------------------------------------------------------------------------------------

    def iteration(
        self, node: NodeRecord, old: Pod | None, new: Pod | None, *, is_static: bool = False, mirror: Pod | None = None
    ) -> None:
        if new is None:
            if old is not None:
                self.handle_pod_removes(old)
        elif new.metadata.uid in self._records:
            self.handle_pod_updates(new)
        else:
            self.handle_pod_additions(PodRecord(node=node, pod=new, is_static=is_static, mirror=mirror))

    def handle_pod_additions(self, record: PodRecord) -> None:
        self._records[record.uid] = record
        if record.pod.status.phase == PENDING:
            record.progress.seen_at = self._clock.monotonic()
        if record.pod.status.phase in TERMINAL:
            record.move_to(PodSyncState.TERMINATED)
            self._finish(record)
            return
        record.node.runtime.adopt(record.pod)
        preempted = self._admitter.admit(record)
        for pod_record in (record, *preempted) if preempted is not None else ():
            self._queue.add(pod_record.uid)

    def handle_pod_updates(self, pod: Pod) -> None:
        record = self._records[pod.metadata.uid]
        record.spec.pod = pod
        if record.spec.is_deleted:
            record.progress.interrupt()
        if self._statuses.acknowledge(record):
            return
        if record.state in ENDED_STATES:
            self._finish(record)
        else:
            self._queue.add(record.uid)

    def handle_pod_removes(self, pod: Pod) -> None:
        """Mark the pod as removed from its source, so that its containers that still run are killed."""
        record = self._records.get(pod.metadata.uid)
        if record is not None:
            record.spec.is_removed = True
            record.progress.interrupt()
            self._queue.add(record.uid)

    def withdraw(self, record: PodRecord) -> None:
        """Terminate a static pod whose manifest is gone or replaced."""
        record.spec.is_withdrawn = True
        self._queue.add(record.uid)

    def _finish(self, record: PodRecord) -> None:
        """Finish a pod that has reached a terminal phase. If volumes, cgroups or containers of it may be left on the
        node, they are cleaned up first.
        """
        if self._lifecycle.has_leftovers(record.pod):
            self._queue.add(record.uid)
        else:
            self._statuses.finish(record)

    def forget(self, node: NodeRecord) -> None:
        """Drop all records of a node that no longer exists. A worker may still be busy with one of its pods."""
        for uid in [uid for uid, record in self._records.items() if record.node is node]:
            del self._records[uid]

    # -- workers -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self._queue.serve(self._work, self._workers)

    async def _work(self, uid: str) -> None:
        try:
            again_s = await self.update_pod(uid)
        except Exception:
            log.exception("sync of pod %s failed; retrying in %g s", uid, self._queue.retry(uid))
        else:
            self._queue.record_success(uid, again_s)

    async def update_pod(self, uid: str) -> float | None:
        """Advance the pod by one step. Return the seconds until the next sync, or None to wait for a change."""
        record = self._records.get(uid)
        if record is None:
            return None
        if record.spec.is_removed:
            await self._remove(record)
            return None
        if record.state in ACTIVE:
            with self._metrics.sync_pod("sync"):
                again_s = await self.sync_pod(record)
            if record.state in ACTIVE:
                return again_s
        if record.state is PodSyncState.TERMINATING:
            with self._metrics.sync_pod("kill"):
                again_s = await self.sync_terminating_pod(record)
            if record.state is PodSyncState.TERMINATING:
                return again_s
        with self._metrics.sync_pod("terminate"):
            await self.sync_terminated_pod(record)
        return None

    # -- running pods ------------------------------------------------------------------------------------------------

    async def sync_pod(self, record: PodRecord) -> float | None:
        """Start the containers that should run, or move the pod to TERMINATING if it is complete or must stop."""
        pod, lifecycle = record.pod, self._lifecycle
        self._check_deadline(record)
        self._check_permissions(record)
        await self._allocate_devices(record)
        if record.state not in ACTIVE:
            return None
        report, retry_s = lifecycle.report(record), None
        if (record.progress.is_restarting_all or restarts_all(pod.spec, report)) and not self._must_terminate(record):
            are_removed, report = await self._remove_containers(record, report), lifecycle.report(record)
            if not are_removed:
                self._publish(record, report)
                return report.changes_in_s
        time_slice = TimeSlice()
        while retry_s is None:
            actions = compute_pod_actions(pod, report)
            if actions.kill_pod or self._must_terminate(record):
                record.move_to(PodSyncState.TERMINATING)
                return None
            is_quiet = not (actions.needs_sandbox or actions.start or ephemeral_to_start(pod, report))
            if self._lacks_initial_status(record):
                self._publish(record, report)
            work = self._starter.carry_out(record, actions, report)
            is_slow = not is_quiet and lifecycle.has_slow_start()
            retry_s = await (run_until(self._publish_progress(record), work) if is_slow else work)
            if is_quiet:
                break
            await time_slice.pause_if_used_up()
            report = lifecycle.report(record)
        running_s = await lifecycle.sync_running(record, report)
        await self._kill(record, lifecycle.containers_to_kill(record, report))
        self._publish(record, report)
        deadline_s = deadline_left_s(pod, record.status, self._clock.now())
        return min((s for s in (retry_s, running_s, report.changes_in_s, deadline_s) if s is not None), default=None)

    async def _publish_progress(self, record: PodRecord) -> None:
        """Publish the status from time to time while an image of the pod is pulled, which may take long. At other times
        a container whose postStart hook is running would be published as ready."""
        while True:
            await self._clock.sleep(_PROGRESS_S)
            if record.progress.is_pulling:
                self._publish(record, self._lifecycle.report(record))

    def _check_deadline(self, record: PodRecord) -> None:
        left_s = deadline_left_s(record.pod, record.status, self._clock.now())
        if left_s is not None and left_s <= 0:
            failure = DEADLINE_EXCEEDED
            self._events.record_pod_event(record.node, record.pod, NORMAL, failure.reason, failure.message)
            record.spec.failure = failure

    def _check_permissions(self, record: PodRecord) -> None:
        """Terminate a pod that the current kubelet configuration forbids, although an earlier configuration admitted
        it.
        """
        if record.spec.failure is not None:
            return
        if (failure := self._lifecycle.permission_failure(record.pod)) is not None:
            self._events.record_pod_event(record.node, record.pod, WARNING, failure.reason, failure.message)
            record.spec.failure = failure

    async def _allocate_devices(self, record: PodRecord) -> None:
        """Move an admitted pod to SYNCING, or reject it if its devices cannot be allocated. A pod that must terminate
        gets no devices.
        """
        if record.state is not PodSyncState.ADMITTED or self._must_terminate(record):
            return
        if (failure := await self._lifecycle.allocate_devices(record)) is not None:
            self._admitter.reject(record, failure)
        else:
            record.move_to(PodSyncState.SYNCING)

    def _lacks_initial_status(self, record: PodRecord) -> bool:
        """Whether an initial status has to be published first, because preparing volumes and images may take long."""
        is_unknown = record.published.pending is None and not record.pod.status.containerStatuses
        return is_unknown and self._lifecycle.has_slow_start()

    def _must_terminate(self, record: PodRecord) -> bool:
        spec = record.spec
        is_unwanted = spec.is_deleted or spec.is_withdrawn
        return is_unwanted or spec.failure is not None or record.status.phase in TERMINAL

    async def _remove_containers(self, record: PodRecord, report: PodReport) -> bool:
        """Kill and remove all containers of the pod, so that they can be restarted together. Return whether all of them
        have been removed. The containers get no grace period, and their restart is not subject to backoff.
        """
        pod, record.progress.is_restarting_all = record.pod, True
        running = [
            (find_container(pod.spec, container_report.name), container_report.id)
            for container_report in report.containers
            if container_report.state in _ALIVE
        ]
        kills = [
            ContainerKill(container, id, "killing", 0) for container, id in running if isinstance(container, Container)
        ]
        if kills:
            await self._kill(record, kills)
            report = self._lifecycle.report(record)  # Some containers exit at once.
        own_reports = [
            container_report
            for container_report in (*report.containers, *report.before)
            if isinstance(find_container(pod.spec, container_report.name), Container)
        ]
        if any(container_report.state in _ALIVE for container_report in own_reports):
            return False
        for container_report in own_reports:
            await record.node.runtime.remove_container(pod, container_report.id)
        self._publish(record, self._lifecycle.report(record))
        record.progress.is_restarting_all = False
        return True

    async def _kill(self, record: PodRecord, kills: Sequence[ContainerKill]) -> None:
        """Stop single containers of a pod that keeps running, each at most once."""
        killed = record.progress.killed = record.progress.killed or set()
        async for kill in TimeSlice().iterate(kills):
            if kill.id in killed:
                continue
            killed.add(kill.id)
            self._events.record_killing(record.node, record.pod, kill.container, kill.message)
            grace_s = kill.grace_s if kill.grace_s is not None else termination_grace_period_s(record.pod)
            await self._lifecycle.stop_container(record, kill.container.name, grace_s)

    # -- terminating pods --------------------------------------------------------------------------------------------

    async def sync_terminating_pod(self, record: PodRecord) -> float | None:
        """Stop all containers within the grace period."""
        pod, lifecycle = record.pod, self._lifecycle
        report, time_slice = lifecycle.report(record), TimeSlice()
        while names := self._containers_to_stop(record, report):
            async for name in time_slice.iterate(names):
                await self._stop(record, name)
            report = lifecycle.report(record)
        if may_run(report):
            self._publish(record, report)
            return report.changes_in_s
        await record.node.runtime.stop_sandbox(pod)
        await lifecycle.release_devices(record)
        # Free the resources before the terminal status is published: the scheduler may bind the next pod at once.
        record.free()
        # Report the pod IPs although they are already released: the status of a short-lived pod may never have shown
        # them.
        self._publish(record, replace(lifecycle.report(record), ips=report.ips), is_terminal=True)
        record.move_to(PodSyncState.TERMINATED)
        return None

    def _containers_to_stop(self, record: PodRecord, report: PodReport) -> list[str]:
        """Return the running containers that have not been asked to stop yet, or that now have to stop sooner than
        asked.
        """
        names, deadlines = stop_order(record.pod, report), record.progress.stop_deadlines or {}
        if names:
            self._advance_deadline(record)
        return [name for name in names if record.spec.stop_by < deadlines.get(name, float("inf"))]

    def _advance_deadline(self, record: PodRecord) -> None:
        """Set the monotonic time by which all containers must have stopped: the earlier of the previous and the current
        deadline.
        """
        spec, by = record.spec, self._clock.monotonic() + termination_grace_period_s(record.pod)
        spec.stop_by = min(by, spec.stop_by) if spec.stop_by else by

    async def _stop(self, record: PodRecord, name: str) -> None:
        self._advance_deadline(record)
        by, container = record.spec.stop_by, find_container(record.pod.spec, name)
        deadlines = record.progress.stop_deadlines = record.progress.stop_deadlines or {}
        if name not in deadlines and container is not None:
            self._events.record_killing(record.node, record.pod, container)
        deadlines[name] = by
        await self._lifecycle.stop_container(record, name, max(by - self._clock.monotonic(), 0))

    # -- terminated pods ---------------------------------------------------------------------------------------------

    async def sync_terminated_pod(self, record: PodRecord) -> None:
        """Release everything but the final status of the pod. Once the pod is being deleted, its logs are removed too,
        because they can no longer be requested.
        """
        if record.spec.is_withdrawn or record.spec.is_deleted:
            await self._lifecycle.remove(record)
        else:
            await self._lifecycle.release(record)
        record.free()
        progress = record.progress
        progress.waiting = progress.back_offs = progress.stop_deadlines = progress.killed = None
        self._statuses.finish(record)
        for listener in self._termination_listeners:
            listener(record)

    async def _remove(self, record: PodRecord) -> None:
        await self._lifecycle.remove(record)
        record.free()
        record.move_to(PodSyncState.REMOVED)
        self._records.pop(record.uid, None)
        self._statuses.note_removal()

    # -- internals ---------------------------------------------------------------------------------------------------

    def _publish(self, record: PodRecord, report: PodReport, *, is_terminal: bool = False) -> None:
        """Compute the status of the pod and pass it to the status manager."""
        progress = record.progress
        inputs = StatusInputs(
            report=report,
            old=record.status,
            waiting=progress.waiting or {},
            host_ips=(record.node.machine.address, *record.node.machine.more_addresses),
            is_terminal=is_terminal,
            failure=record.spec.failure,
            actuated=progress.actuated or {},
            resize=progress.resize,
            is_restarting_all=progress.is_restarting_all,
        )
        status = generate_status(record.pod, inputs, self._clock.now())
        status = self._lifecycle.extend_status(record.pod, status)
        if is_terminal:
            status = final_status(record.pod, status)
        if status.phase == RUNNING and progress.seen_at is not None:
            self._metrics.record_pod_start(self._clock.monotonic() - progress.seen_at)
            progress.seen_at = None
        self._statuses.set_pod_status(record, status, may_run=may_run(report))
