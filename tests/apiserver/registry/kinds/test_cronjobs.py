"""CronJobs: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.batch_v1 import CronJob
from sampan.api.values.times import format_time
from sampan.apiserver.registry.kinds import cronjobs
from tests.apiserver.registry.kind_rules import NOW, Rules, template

JOB = {"spec": {"template": template({"restartPolicy": "Never"})}}
RULES = Rules(cronjobs.BEHAVIOR, CronJob, {"schedule": "1 * * * *", "jobTemplate": JOB})
USE_ZONE = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"


def job(**spec: Any) -> dict[str, Any]:
    return {"jobTemplate": {"spec": {**JOB["spec"], **spec}}}


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        ({"timeZone": "Europe/Berlin"}, []),
        ({"timeZone": "Etc/UTC"}, []),
        ({"timeZone": ""}, ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string']),
        (
            {"timeZone": "Local"},
            [
                'spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in '
                "https://www.iana.org/time-zones"
            ],
        ),
        ({"timeZone": "../UTC"}, ['spec.timeZone: Invalid value: "../UTC": unknown time zone ../UTC']),
        (
            {"schedule": "TZ=0"},
            [
                'spec.schedule: Invalid value: "TZ=0": invalid schedule format: runtime error: slice bounds out of '
                "range [:-1]",
                f'spec.schedule: Invalid value: "TZ=0": {USE_ZONE}',
            ],
        ),
        (
            job(completionMode="Indexed", podFailurePolicy={"rules": [{"action": "Count"}]}),
            [
                "spec.jobTemplate.spec.completions: Required value: when completion mode is Indexed",
                "spec.jobTemplate.spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and "
                "OnPodConditions is required",
            ],
        ),
    ],
)
def test_errors_of_new_objects(spec: dict[str, Any], faults: list[str]) -> None:
    assert RULES.faults(spec) == faults


def test_job_template_is_not_defaulted_except_pod_failure_policy() -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    job_spec = RULES.create(job(podFailurePolicy=policy)).spec.jobTemplate.spec
    assert (job_spec.completions, job_spec.backoffLimit, job_spec.manualSelector) == (None, None, None)
    assert job_spec.podFailurePolicy.rules[0].onPodConditions[0].status == "True"


def test_time_zone_in_stored_schedule_is_allowed_with_a_warning() -> None:
    old = RULES.create()
    old.spec.schedule = "TZ=UTC 1 * * * *"
    kept, faults = RULES.update(old, {"schedule": "TZ=UTC 2 * * * *"})
    assert faults == []
    assert RULES.update(old, {"schedule": "TZ=UTC 2 * * * *", "timeZone": "UTC"})[1] == [
        'spec.schedule: Invalid value: "TZ=UTC 2 * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule'
    ]
    assert RULES.warnings({"schedule": kept.spec.schedule}, old=old)[-1].startswith("cannot use TZ or CRON_TZ in spec")


def test_unknown_time_zone_of_stored_cron_job_is_allowed() -> None:
    old = RULES.create({"timeZone": "Atlantis/Port"})
    assert RULES.update(old, {"timeZone": "Atlantis/Port", "suspend": True})[1] == []


def test_warnings_of_large_jobs() -> None:
    large = job(completionMode="Indexed", completions=100_001, parallelism=10_001)
    assert [text.partition(":")[0] for text in RULES.warnings(large)] == ["spec.jobTemplate.spec"]


def test_table_cells() -> None:
    old = RULES.create({"timeZone": "Europe/Berlin", "suspend": True})
    status = {"active": [{"name": "x"}], "lastScheduleTime": format_time(NOW - 600)}
    updated, faults = RULES.update_status(old, status, labels={"a": "b"})
    assert faults == []
    assert updated.metadata.labels == {"a": "b"}
    last = ["0s", "c", "nginx:1", "<none>"]
    assert RULES.cells(updated) == ["a", "1 * * * *", "Europe/Berlin", "True", 1, "10m", *last]
    assert RULES.cells(RULES.create()) == ["a", "1 * * * *", "<none>", "False", 0, "<none>", *last]
