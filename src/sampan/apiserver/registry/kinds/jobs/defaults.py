"""What the server fills in of a job."""

from sampan.api.int_or_string import MAX_INT32
from sampan.api.types.batch_v1 import Job, JobSpec
from sampan.apiserver.registry.podspec.defaults import default_template

_BACKOFF_LIMIT = 6


def default_job(job: Job) -> None:
    """A job without labels shares those of its pods, so that what is added to these later is added to both."""
    spec = job.spec
    default_job_template(spec)
    if spec.parallelism is None:
        spec.parallelism = 1
        if spec.completions is None:
            spec.completions = 1
    if spec.backoffLimit is None:
        spec.backoffLimit = _BACKOFF_LIMIT if spec.backoffLimitPerIndex is None else MAX_INT32
    if spec.completionMode is None:
        spec.completionMode = "NonIndexed"
    if spec.suspend is None:
        spec.suspend = False
    if spec.podReplacementPolicy is None:
        spec.podReplacementPolicy = "TerminatingOrFailed" if spec.podFailurePolicy is None else "Failed"
    if spec.manualSelector is None:
        spec.manualSelector = False
    if not job.metadata.labels:
        job.metadata.labels = spec.template.metadata.labels


def default_job_template(spec: JobSpec) -> None:
    """What a job has in common with the template of a cron job."""
    default_template(spec.template)
    policy = spec.podFailurePolicy
    for rule in (policy.rules or ()) if policy is not None else ():
        for pattern in rule.onPodConditions:
            pattern.status = pattern.status or "True"
