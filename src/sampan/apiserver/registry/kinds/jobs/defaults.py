"""Default values of jobs."""

from sampan.api.int_or_string import MAX_INT32
from sampan.api.types.batch_v1 import Job, JobSpec
from sampan.apiserver.registry.podspec.defaults import default_template

_BACKOFF_LIMIT = 6


def default_job(job: Job) -> None:
    """Apply the defaults of a job.

    A job without labels shares the dict with the pod template's labels, so that generated labels are added to both.
    """
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
    """Apply the defaults that a job and the template of a cron job have in common."""
    default_template(spec.template)
    policy = spec.podFailurePolicy
    for rule in (policy.rules or ()) if policy is not None else ():
        for pattern in rule.onPodConditions:
            pattern.status = pattern.status or "True"
