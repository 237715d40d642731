"""Builders of jobs and pods for tests of the job controller's decisions."""

from collections.abc import Sequence
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.api.values.times import format_time
from sampan.controllers.batch.job.pod_state import COMPLETION_INDEX, FAILURES, TRACKING, JobFailures
from sampan.controllers.batch.job.view import JobView, view_of

NOW = 1_767_225_600.0


def job(*, status: dict[str, Any] | None = None, **spec: Any) -> Job:
    restart = spec.pop("restart", "Never")
    template = {"spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}}
    defaults = {"backoffLimit": 6, "parallelism": 1, "template": template}
    meta = {"name": "work", "namespace": "default", "uid": "job"}
    return codec.from_value({"metadata": meta, "spec": {**defaults, **spec}, "status": status or {}}, Job)


def indexed_job(completions: int, *, status: dict[str, Any] | None = None, **spec: Any) -> Job:
    defaults = {"completionMode": "Indexed", "completions": completions, "parallelism": completions}
    return job(status=status, **{**defaults, **spec})


def pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    code: int | None = None,
    ended_s: float = 0.0,
    failures: int = 0,
    tracked: bool = True,
    is_deleted: bool = False,
    ready: bool = False,
    conditions: Sequence[dict[str, str]] = (),
    restarts: int = 0,
) -> Pod:
    """A pod of a job; `ended_s` is how many seconds before NOW its container terminated."""
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": format_time(NOW)}
    meta["finalizers"] = [TRACKING] if tracked else []
    if index is not None:
        meta["annotations"] = {COMPLETION_INDEX: str(index), FAILURES: str(failures)}
    if is_deleted:
        meta["deletionTimestamp"] = format_time(NOW)
    state = {}
    if phase in ("Succeeded", "Failed"):
        exit_code = code if code is not None else int(phase == "Failed")
        state = {"terminated": {"exitCode": exit_code, "finishedAt": format_time(NOW - ended_s)}}
    container = {"name": "c", "image": "i", "imageID": "i", "state": state, "restartCount": restarts}
    all_conditions = [*conditions, *([{"type": "Ready", "status": "True"}] if ready else [])]
    status = {"phase": phase, "containerStatuses": [container], "conditions": all_conditions}
    return codec.from_value({"metadata": meta, "status": status}, Pod)


def view(job: Job, *pods: Pod, failures: JobFailures = JobFailures(), released: Sequence[str] = ()) -> JobView:  # noqa: B008
    return view_of(job, pods, released=set(released), failures=failures, now=NOW)
