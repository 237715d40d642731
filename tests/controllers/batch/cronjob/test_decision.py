"""Whether a job is started, and which events are recorded."""

from typing import Any

import pytest

from sampan.api.values.times import format_time
from sampan.controllers.batch.cronjob.decision import SCHEDULED, decide, job_for, jobs_over_history_limits, zone_of
from tests.controllers.batch.cronjob.cron_jobs import START, cron, finished_job

RUNNING = [{"name": "tick-1", "namespace": "default", "uid": "x"}]


@pytest.mark.parametrize(
    ("spec", "status", "passed_s", "starts", "reasons"),
    [
        ({}, {}, 0, False, []),
        ({}, {}, 600, True, []),
        ({}, {"lastScheduleTime": format_time(START + 600)}, 700, False, []),
        ({}, {"active": [{"name": f"tick-{int(START + 600) // 60}"}]}, 700, False, []),
        ({"suspend": True}, {}, 600, False, []),
        ({"concurrencyPolicy": "Forbid"}, {"active": RUNNING}, 600, False, ["JobAlreadyActive"]),
        ({"concurrencyPolicy": "Forbid"}, {}, 600, True, []),
        ({"concurrencyPolicy": "Allow"}, {"active": RUNNING}, 600, True, []),
        ({"concurrencyPolicy": "Replace"}, {"active": RUNNING}, 600, True, []),
        ({}, {}, 102 * 600, True, ["TooManyMissedTimes"]),
        ({"timeZone": "Nowhere/Land"}, {}, 600, False, ["UnknownTimeZone"]),
        ({"schedule": "TZ=Asia/Tokyo */10 * * * *"}, {}, 600, True, ["UnsupportedSchedule"]),
        ({"schedule": "what"}, {}, 600, False, ["UnparseableSchedule"]),
        ({"schedule": "0 0 31 2 *"}, {}, 600, False, ["InvalidSchedule"]),
    ],
)
def test_job_start_and_events_by_spec_and_status(
    spec: dict[str, Any], status: dict[str, Any], passed_s: int, starts: bool, reasons: list[str]
) -> None:
    decision = decide(cron(status=status, **spec), START + passed_s)
    assert (decision.start is not None) is starts
    assert [event.reason for event in decision.events] == reasons


def test_deleted_cron_job_starts_no_job() -> None:
    deleted = cron()
    deleted.metadata.deletionTimestamp = format_time(START)
    assert decide(deleted, START + 600).start is None


def test_job_has_template_labels_owner_and_scheduled_timestamp() -> None:
    spec = cron(timeZone="Asia/Tokyo")
    job = job_for(spec, START + 600, zone_of(spec))
    assert job.metadata.name == f"tick-{int(START + 600) // 60}"
    assert job.metadata.annotations[SCHEDULED] == "2026-01-01T09:10:00+09:00"
    assert job.metadata.labels == {"a": "b"}
    assert [owner.kind for owner in job.metadata.ownerReferences] == ["CronJob"]
    assert job_for(cron(), START + 600, zone_of(cron())).metadata.annotations[SCHEDULED] == "2026-01-01T00:10:00Z"


def test_oldest_finished_jobs_exceed_the_history_limits() -> None:
    spec = cron(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    jobs = [
        finished_job("new", 30),
        finished_job("old", 10),
        finished_job("older", 5),
        finished_job("bad", 20, "Failed"),
        finished_job("on", 1, ""),
    ]
    assert [job.metadata.name for job in jobs_over_history_limits(spec, jobs)] == ["older", "old", "bad"]
    assert jobs_over_history_limits(cron(), jobs) == []
