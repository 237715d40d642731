"""The jobs that a CronJob creates, and which finished jobs exceed its history limits. Pure."""

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo

from sampan.api.semantics.owners import new_controller_ref
from sampan.api.times import parse_time
from sampan.api.types.batch_v1 import CronJob, Job
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.batch.finished import has_succeeded, is_finished

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


def kept_too_long(cron: CronJob, jobs: Sequence[Job]) -> list[Job]:
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
