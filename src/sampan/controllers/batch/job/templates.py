"""The pods of a job: its template, plus the completion index of an indexed job. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec
from sampan.controllers.batch.job.facts import (
    FAILURES,
    IGNORED_FAILURES,
    TRACKING,
    failures_before,
    has_limit_per_index,
    ignored_before,
)
from sampan.controllers.batch.job.failure_policy import judge
from sampan.controllers.batch.job.indexes import COMPLETION_INDEX
from sampan.controllers.ownership.pods import pod_from

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 58
"""Maximum length of the generateName prefix, to which the API server appends five characters."""


def pod_of(job: Job, index: int | None, held: Mapping[int, Pod]) -> Pod:
    """Return the pod to create. `held` maps indexes to the failed pods that are replaced."""
    template = job.spec.template
    if index is None:
        return pod_from(template, job, finalizers=[TRACKING])
    index_entry = {COMPLETION_INDEX: str(index)}
    counts = _failure_counts(job, held.get(index)) if has_limit_per_index(job) else {}
    return pod_from(
        template,
        job,
        generate_name=_prefix(job.metadata.name, index),
        labels=index_entry,
        annotations={**index_entry, **counts},
        finalizers=[TRACKING],
        spec=_indexed_spec(job, index),
    )


def _indexed_spec(job: Job, index: int) -> PodSpec:
    spec = job.spec.template.spec
    return msgspec.structs.replace(
        spec,
        hostname=f"{job.metadata.name}-{index}",
        initContainers=[_with_index(container) for container in spec.initContainers],
        containers=[_with_index(container) for container in spec.containers or ()],
    )


def _with_index(container: Container) -> Container:
    if any(variable.name == INDEX_VARIABLE for variable in container.env):
        return container
    source = EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=f"metadata.labels['{COMPLETION_INDEX}']"))
    variable = EnvVar(name=INDEX_VARIABLE, valueFrom=source)
    return msgspec.structs.replace(container, env=[*container.env, variable])


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, Any]:
    counted, ignored = 0, 0
    if replaced is not None:
        is_counted = judge(job.spec.podFailurePolicy, replaced).is_counted
        counted, ignored = failures_before(replaced) + is_counted, ignored_before(replaced) + (not is_counted)
    return {FAILURES: str(counted)} | ({IGNORED_FAILURES: str(ignored)} if ignored else {})


def _prefix(name: str, index: int) -> str:
    end = f"-{index}-"
    return f"{name[: _LONGEST_PREFIX - len(end)]}{end}"
