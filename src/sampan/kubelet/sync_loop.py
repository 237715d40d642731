"""The sync loop turns changes of pods, and of what the runtime reports, into work on one pod at a time.

`iteration` takes a change from the pod source and passes it to `handle_pod_additions`, `handle_pod_updates` or
`handle_pod_removes`, which record it and call `dispatch_work`. A worker then calls `update_pod`, which runs `sync_pod`
while the pod should run, `sync_terminating_pod` while its containers are being stopped, and `sync_terminated_pod` once
none of them runs any more. This is the counterpart of `syncLoop` and the pod workers in `pkg/kubelet`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from sampan.api.semantics.pods import find_container, init_and_main_containers, termination_grace_period_s
from sampan.api.types.core_v1 import Container, Pod
from sampan.kubelet.admitting import Admitting
from sampan.kubelet.backoff import MOST_S
from sampan.kubelet.deadline import EXCEEDED, deadline_left_s
from sampan.kubelet.phase import TERMINAL
from sampan.kubelet.pod_actions import compute_pod_actions, ephemeral_to_start, stop_order
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import Facts, Verdict, finished, generate, may_run
from sampan.kubelet.provision import Kill
from sampan.kubelet.records import NodeRecord, PodRecord, Records, Stage
from sampan.kubelet.restarts import restarts_all
from sampan.kubelet.starting import Starter
from sampan.kubelet.status_manager import StatusManager
from sampan.machinery.activity import Activity
from sampan.machinery.clock import Clock
from sampan.machinery.events import NORMAL, WARNING
from sampan.machinery.workqueue import Backoff, WorkQueue
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport

log = logging.getLogger(__name__)


class SyncLoop:
    """Sync loop of one node, or of all nodes of a hollow fleet. A pod is never synced by two workers at once."""

    def __init__(
        self,
        *,
        records: Records,
        statuses: StatusManager,
        events: PodEvents,
        clock: Clock,
        activity: Activity,
        workers: int,
        longest_pause_s: float = MOST_S,
    ) -> None:
        self._records, self._statuses, self._events, self._clock = records, statuses, events, clock
        self._starter = Starter(clock=clock, events=events, longest_pause_s=longest_pause_s)
        self._admitting = Admitting(records=records, statuses=statuses, events=events, clock=clock)
        self._workers = workers
        self.on_terminated: Callable[[PodRecord], None] | None = None
        """Called once nothing of a pod is left on the node."""
        self.queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=Backoff(1, 10), activity=activity)

    # -- changes -----------------------------------------------------------------------------------------------------

    def iteration(self, kubelet: NodeRecord, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self.handle_pod_removes(old)
        elif new.metadata.uid in self._records:
            self.handle_pod_updates(new)
        else:
            self.handle_pod_additions(kubelet, new)

    def handle_pod_additions(self, kubelet: NodeRecord, pod: Pod) -> None:
        record = PodRecord(kubelet=kubelet, pod=pod)
        self._records[pod.metadata.uid] = record
        if pod.status.phase in TERMINAL:
            record.stage = Stage.TERMINATED
            self._finish(record)
            return
        kubelet.runtime.adopt(pod)
        ended = self._admitting.admit(record)
        for pod_record in (record, *ended) if ended is not None else ():
            self.dispatch_work(pod_record.uid)

    def handle_pod_updates(self, pod: Pod) -> None:
        record = self._records[pod.metadata.uid]
        record.pod = pod
        if pod.metadata.deletionTimestamp is not None:
            _interrupt(record)
        if self._statuses.seen(record):
            return
        if record.stage is Stage.TERMINATED:
            self._finish(record)
        else:
            self.dispatch_work(record.uid)

    def handle_pod_removes(self, pod: Pod) -> None:
        """Mark the pod as removed from its source, so that whatever still runs is killed."""
        record = self._records.get(pod.metadata.uid)
        if record is not None:
            record.is_gone = True
            _interrupt(record)
            self.dispatch_work(record.uid)

    def _finish(self, record: PodRecord) -> None:
        """Complete a pod that reached a terminal phase. A real node first cleans up what may be left of it."""
        if record.kubelet.provision is not None:
            self.dispatch_work(record.uid)
        else:
            self._statuses.finish(record)

    def end_pod(self, record: PodRecord, verdict: Verdict, by: float) -> None:
        """Terminate the pod on the node's own initiative (for example eviction), by the monotonic time `by`."""
        record.verdict = record.verdict or verdict
        record.stop_by = min(by, record.stop_by) if record.stop_by else by
        _interrupt(record)
        self.dispatch_work(record.uid)

    def dispatch_work(self, uid: str) -> None:
        self.queue.add(uid)

    def forget(self, kubelet: NodeRecord) -> None:
        """Drop all records of a node that no longer exists."""
        for uid in [uid for uid, record in self._records.items() if record.kubelet is kubelet]:
            del self._records[uid]

    # -- workers -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self.queue.serve(self._work, self._workers)

    async def _work(self, uid: str) -> None:
        try:
            again_s = await self.update_pod(uid)
        except Exception:
            log.exception("sync of pod %s failed; retrying in %g s", uid, self.queue.retry(uid))
        else:
            self.queue.forget(uid)
            if again_s is not None:
                self.queue.add_after(uid, again_s, follows_wall_clock=True)

    async def update_pod(self, uid: str) -> float | None:
        """Advance the pod by one step. Return the seconds until the next sync, or None to wait for a change."""
        record = self._records.get(uid)
        if record is None:
            return None
        if record.is_gone:
            await self._let_go(record)
            return None
        if record.stage is Stage.SYNC:
            again_s = await self.sync_pod(record)
            if record.stage is Stage.SYNC:
                return again_s
        if record.stage is Stage.TERMINATING:
            again_s = await self.sync_terminating_pod(record)
            if record.stage is Stage.TERMINATING:
                return again_s
        await self.sync_terminated_pod(record)
        return None

    async def sync_pod(self, record: PodRecord) -> float | None:
        """Start whatever should run, or move the pod to the terminating stage if it is complete or must stop."""
        pod, kubelet = record.pod, record.kubelet
        self._check_deadline(record)
        self._check_permissions(record)
        if not await self._is_admitted(record):
            return None
        report, retry_s = kubelet.report(pod), None
        if (record.is_resetting or restarts_all(pod.spec, report)) and not self._is_to_end(record):
            is_reset, report = await self._has_reset(record, report), kubelet.report(pod)
            if not is_reset:
                self._say(record, report)
                return report.changes_in_s
        while retry_s is None:
            actions = compute_pod_actions(pod, report)
            if actions.kill_pod or self._is_to_end(record):
                record.stage = Stage.TERMINATING
                return None
            is_quiet = not (actions.needs_sandbox or actions.start or ephemeral_to_start(pod, report))
            if kubelet.provision is not None and record.said is None and not pod.status.containerStatuses:
                # Preparing volumes and images may take long, so publish an initial status first.
                self._say(record, report)
            retry_s = await self._starter.carry_out(record, actions, report)
            if is_quiet:
                break
            report = kubelet.report(pod)
        running_s = None
        if kubelet.provision is not None:
            running_s = await kubelet.provision.sync_running(record, report)
            await self._kill(record, kubelet.provision.to_kill(record, report))
        self._say(record, report)
        deadline_s = deadline_left_s(pod, record.status, self._clock.now())
        return min((s for s in (retry_s, running_s, report.changes_in_s, deadline_s) if s is not None), default=None)

    async def _is_admitted(self, record: PodRecord) -> bool:
        provision = record.kubelet.provision
        if provision is None or record.is_admitted or self._is_to_end(record):
            return True
        if (verdict := await provision.admit(record)) is not None:
            self._admitting.reject(record, verdict)
            return False
        record.is_admitted = True
        return True

    async def _has_reset(self, record: PodRecord, report: PodReport) -> bool:
        """Kill and remove all containers of the pod, so that they can be restarted together. Return whether all of them
        have been removed. They get no grace period, and their restart is not subject to back-off.
        """
        pod, record.is_resetting = record.pod, True
        alive = (contract.RUNNING, contract.CREATED)
        running = [
            (_main(pod, container_report.name), container_report.id)
            for container_report in report.containers
            if container_report.state in alive
        ]
        kills = [Kill(container, id, "killing", 0) for container, id in running if container is not None]
        if kills:
            await self._kill(record, kills)
            report = record.kubelet.report(pod)  # Some containers exit immediately.
        own = [
            container_report
            for container_report in (*report.containers, *report.before)
            if _main(pod, container_report.name)
        ]
        if any(container_report.state in alive for container_report in own):
            return False
        for container_report in own:
            await record.kubelet.runtime.remove_container(pod, container_report.id)
        self._say(record, record.kubelet.report(pod))
        record.is_resetting = False
        return True

    async def _kill(self, record: PodRecord, kills: Sequence[Kill]) -> None:
        """Stop single containers of a pod that keeps running, each at most once."""
        record.killed = record.killed or set()
        for kill in kills:
            if kill.id in record.killed:
                continue
            record.killed.add(kill.id)
            self._events.killing(record.kubelet, record.pod, kill.container, kill.message)
            grace_s = kill.grace_s if kill.grace_s is not None else termination_grace_period_s(record.pod)
            await _stop_container(record, kill.container.name, grace_s)

    async def sync_terminating_pod(self, record: PodRecord) -> float | None:
        """Stop all containers within the grace period."""
        pod, kubelet = record.pod, record.kubelet
        report = kubelet.report(pod)
        while names := [name for name in stop_order(pod, report) if self._is_to_stop(record, name)]:
            for name in names:
                await self._stop(record, name)
            report = kubelet.report(pod)
        if may_run(report):
            self._say(record, report)
            return report.changes_in_s
        await kubelet.runtime.stop_sandbox(pod)
        if kubelet.provision is not None:
            await kubelet.provision.give_back(pod)
        # Free the resources before the terminal status is published: the scheduler may bind the next pod at once.
        record.free()
        # Report the pod IPs although they are already released: the status of a short-lived pod may never have shown
        # them.
        self._say(record, replace(kubelet.report(pod), ips=report.ips), is_terminal=True)
        record.stage = Stage.TERMINATED
        return None

    async def sync_terminated_pod(self, record: PodRecord) -> None:
        """Release everything but the final status. The logs are removed too once the pod is being deleted, because they
        can no longer be requested.
        """
        provision = record.kubelet.provision
        if provision is None or record.is_ending or record.pod.metadata.deletionTimestamp is not None:
            await _remove(record)
        else:
            await provision.release(record.pod)
        record.free()
        record.waiting = record.back_offs = record.stopped = record.killed = None
        self._statuses.finish(record)
        if self.on_terminated is not None:
            self.on_terminated(record)

    async def _let_go(self, record: PodRecord) -> None:
        await _remove(record)
        record.free()
        self._records.pop(record.uid, None)

    # -- internals ---------------------------------------------------------------------------------------------------

    def _check_deadline(self, record: PodRecord) -> None:
        left_s = deadline_left_s(record.pod, record.status, self._clock.now())
        if left_s is not None and left_s <= 0:
            self._events.pod(record.kubelet, record.pod, NORMAL, EXCEEDED.reason, EXCEEDED.message)
            record.verdict = EXCEEDED

    def _check_permissions(self, record: PodRecord) -> None:
        """Terminate a pod that the current kubelet configuration forbids, although an earlier configuration admitted
        it.
        """
        provision = record.kubelet.provision
        if provision is None or record.verdict is not None:
            return
        if (verdict := provision.forbidden(record.pod)) is not None:
            self._events.pod(record.kubelet, record.pod, WARNING, verdict.reason, verdict.message)
            record.verdict = verdict

    def _is_to_end(self, record: PodRecord) -> bool:
        is_deleted = record.pod.metadata.deletionTimestamp is not None
        return is_deleted or record.is_ending or record.verdict is not None or record.status.phase in TERMINAL

    def _say(self, record: PodRecord, report: PodReport, *, is_terminal: bool = False) -> None:
        kubelet = record.kubelet
        facts = Facts(
            report=report,
            old=record.status,
            waiting=record.waiting or {},
            host_ips=(kubelet.machine.address, *kubelet.machine.more_addresses),
            is_terminal=is_terminal,
            verdict=record.verdict,
            actuated=record.actuated or {},
            resize=record.resize,
            is_resetting=record.is_resetting,
        )
        status = generate(record.pod, facts, self._clock.now())
        if kubelet.provision is not None:
            status = kubelet.provision.told(record.pod, status)
        if is_terminal:
            status = finished(record.pod, status)
        self._statuses.set_pod_status(record, status, may_run=may_run(report))

    def _is_to_stop(self, record: PodRecord, name: str) -> bool:
        """Whether the container has not been asked to stop yet, or now has to stop sooner."""
        return self._stop_by(record) < (record.stopped or {}).get(name, float("inf"))

    def _stop_by(self, record: PodRecord) -> float:
        """Return the monotonic time by which all containers must have stopped: the earlier of the previous and the
        current deadline.
        """
        by = self._clock.monotonic() + termination_grace_period_s(record.pod)
        record.stop_by = min(by, record.stop_by) if record.stop_by else by
        return record.stop_by

    async def _stop(self, record: PodRecord, name: str) -> None:
        by, container = self._stop_by(record), find_container(record.pod.spec, name)
        if record.stopped is None:
            record.stopped = {}
        if name not in record.stopped and container is not None:
            self._events.killing(record.kubelet, record.pod, container)
        record.stopped[name] = by
        await _stop_container(record, name, max(by - self._clock.monotonic(), 0))


def _interrupt(record: PodRecord) -> None:
    """Wake up work that waits for what the pod needs in order to run: the pod is terminating."""
    if record.ending is not None:
        record.ending.set()


async def _stop_container(record: PodRecord, name: str, grace_s: float) -> None:
    kubelet = record.kubelet
    if kubelet.provision is not None:
        await kubelet.provision.stop(record, name, grace_s)
    else:
        await kubelet.runtime.stop_container(record.pod, name, grace_s)


async def _remove(record: PodRecord) -> None:
    await record.kubelet.runtime.remove_pod(record.uid)
    if record.kubelet.provision is not None:
        await record.kubelet.provision.clean_up(record.pod)


def _main(pod: Pod, name: str) -> Container | None:
    containers = init_and_main_containers(pod.spec)
    return next((container for container in containers if container.name == name), None)
