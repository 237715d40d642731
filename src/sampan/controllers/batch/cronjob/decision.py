"""The decision about a CronJob at a given time, and the Job that it creates. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from sampan.api.go_compat import gotext
from sampan.api.semantics.owners import new_controller_ref
from sampan.api.types.batch_v1 import CronJob, Job
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values.cron import ScheduleError, UnknownTimeZone, parse_schedule, time_zone
from sampan.api.values.times import parse_time
from sampan.controllers.batch.cronjob.due import DueTime, InvalidSchedule, MissedSchedules, Next, find_due_time, wait_s
from sampan.controllers.batch.job.conditions import has_succeeded, is_finished
from sampan.machinery.events import NORMAL, WARNING

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
"""Job annotation with the scheduled time, in the time zone of the CronJob."""


def job_name(cron: CronJob, time: float) -> str:
    """Return a name derived from the minute, so that no scheduled time is started twice."""
    return f"{cron.metadata.name}-{int(time) // 60}"


def job_for(cron: CronJob, time: float, zone: tzinfo) -> Job:
    template = cron.spec.jobTemplate
    stamp = datetime.fromtimestamp(time, zone).isoformat().replace("+00:00", "Z")
    return Job(
        metadata=ObjectMeta(
            name=job_name(cron, time),
            namespace=cron.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations={**template.metadata.annotations, SCHEDULED: stamp},
            ownerReferences=[new_controller_ref(cron)],
        ),
        spec=template.spec,
    )


def jobs_over_history_limits(cron: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the finished jobs that exceed the history limits, oldest first."""
    done = [job for job in jobs if is_finished(job)]
    succeeded = [job for job in done if has_succeeded(job)]
    failed = [job for job in done if not has_succeeded(job)]
    return [
        *_oldest_over(succeeded, cron.spec.successfulJobsHistoryLimit),
        *_oldest_over(failed, cron.spec.failedJobsHistoryLimit),
    ]


def _oldest_over(jobs: Sequence[Job], limit: int | None) -> list[Job]:
    if limit is None or len(jobs) <= limit:
        return []
    return sorted(jobs, key=_age)[: len(jobs) - limit]


def _age(job: Job) -> tuple[float, str]:
    started = job.status.startTime
    return (parse_time(started) if started else math.inf, job.metadata.name)


_UNSUPPORTED = (
    "CRON_TZ or TZ used in schedule {} is not officially supported, "
    "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_TOO_MANY_MISSED_MESSAGE = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)
_FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"


@dataclass(frozen=True, slots=True)
class CronJobEvent:
    """An event to record about a CronJob."""

    type: str
    reason: str
    message: str


@dataclass(slots=True)
class CronJobDecision:
    start: float | None = None
    """The scheduled time for which to start a job."""
    again_s: float | None = None
    events: list[CronJobEvent] = field(default_factory=list)


def decide(cron: CronJob, now: float) -> CronJobDecision:
    """Decide about a CronJob whose list of active jobs in the status is up to date."""
    decision = CronJobDecision()
    if cron.metadata.deletionTimestamp is not None:
        return decision
    if (event := _time_zone_error(cron)) is not None:
        decision.events.append(event)
    elif not cron.spec.suspend and (next_after := _try_parse_schedule(cron, decision)) is not None:
        _decide(cron, now, next_after, decision)
    return decision


def parse_cron_schedule(cron: CronJob) -> Next:
    """Return the schedule in the time zone of the CronJob; raise ScheduleError if it cannot be parsed."""
    schedule, zone = parse_schedule(cron.spec.schedule), zone_of(cron)
    return lambda moment: schedule.next_after(moment, zone)


def zone_of(cron: CronJob) -> tzinfo:
    """Return the time zone of the CronJob; UTC if it has none or an unknown one."""
    try:
        return time_zone(cron.spec.timeZone) if cron.spec.timeZone else UTC
    except UnknownTimeZone:
        return UTC


def _time_zone_error(cron: CronJob) -> CronJobEvent | None:
    try:
        if cron.spec.timeZone:
            time_zone(cron.spec.timeZone)
    except UnknownTimeZone as error:
        return CronJobEvent(
            WARNING, "UnknownTimeZone", f"invalid timeZone: {gotext.quote(cron.spec.timeZone or '')}: {error}"
        )
    return None


def _try_parse_schedule(cron: CronJob, decision: CronJobDecision) -> Next | None:
    text = gotext.quote(cron.spec.schedule)
    if "TZ" in cron.spec.schedule:
        decision.events.append(CronJobEvent(WARNING, "UnsupportedSchedule", _UNSUPPORTED.format(text)))
    try:
        return parse_cron_schedule(cron)
    except ScheduleError as error:
        decision.events.append(CronJobEvent(WARNING, "UnparseableSchedule", f"unparseable schedule: {text} : {error}"))
        return None


def _decide(cron: CronJob, now: float, next_after: Next, decision: CronJobDecision) -> None:
    try:
        due_time = find_due_time(cron, now, next_after, within_deadline=True)
    except InvalidSchedule as error:
        decision.events.append(
            CronJobEvent(WARNING, "InvalidSchedule", f"invalid schedule: {cron.spec.schedule} : {error}")
        )
        return
    if due_time.time is not None:
        decision.start = _decide_start(cron, now, due_time, due_time.time, decision.events)
    decision.again_s = wait_s(cron, now, next_after, last=decision.start)


def _decide_start(cron: CronJob, now: float, due: DueTime, time: float, events: list[CronJobEvent]) -> float | None:
    """Return the scheduled time if a job is to be started for it, or None."""
    if due.missed is MissedSchedules.MANY:
        events.append(CronJobEvent(WARNING, "TooManyMissedTimes", _TOO_MANY_MISSED_MESSAGE))
    deadline = cron.spec.startingDeadlineSeconds
    if deadline is not None and time + deadline < now:
        events.append(CronJobEvent(WARNING, "MissSchedule", f"Missed scheduled time to start a job: {_rfc1123(time)}"))
    elif _is_processed(cron, time):
        return None
    elif cron.spec.concurrencyPolicy == "Forbid" and cron.status.active:
        events.append(CronJobEvent(NORMAL, "JobAlreadyActive", _FORBIDDEN))
    else:
        return time
    return None


def _is_processed(cron: CronJob, time: float) -> bool:
    name, last = job_name(cron, time), cron.status.lastScheduleTime
    return any(active.name == name for active in cron.status.active) or (last is not None and parse_time(last) == time)


def _rfc1123(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%a, %d %b %Y %H:%M:%S %z")
