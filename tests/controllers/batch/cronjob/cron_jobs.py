"""Builders of cron jobs and their jobs."""

from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import CronJob, Job
from sampan.api.values.times import format_time

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z, a Thursday: when virtual clocks start."""


def cron(schedule: str = "*/10 * * * *", *, status: dict[str, Any] | None = None, **spec: Any) -> CronJob:
    job = spec.pop("job", {"completions": 0, "parallelism": 0})
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    value = {
        "metadata": {"name": "tick", "namespace": "default", "creationTimestamp": format_time(START), "uid": "u"},
        "spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Allow",
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template, **job}},
            **spec,
        },
        "status": status or {},
    }
    return codec.from_value(value, CronJob)


def finished_job(name: str, started: float | None, kind: str = "Complete") -> Job:
    conditions = [{"type": kind, "status": "True"}] if kind else []
    status: dict[str, Any] = {"conditions": conditions}
    if started is not None:
        status["startTime"] = format_time(started)
    return codec.from_value({"metadata": {"name": name, "uid": name}, "status": status}, Job)
