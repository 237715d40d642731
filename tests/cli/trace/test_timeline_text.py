"""Timelines of pods as text."""

import pytest

from sampan.cli.trace.timeline_text import summary, timeline_text
from sampan.diagnosis.pod_timeline import timeline
from tests.diagnosis.recorded_pod import record, started_pod


def test_text_fits_eighty_columns_and_omits_later_steps() -> None:
    text = timeline_text("pod default/web", timeline(started_pod()), is_wide=False)
    assert max(map(len, text.splitlines())) <= 80
    summary = "pod default/web: running after 1.00s, ready after 3.00s, reachable after 3.30s"
    assert text.splitlines()[0] == summary
    assert "critical path: pull image 30%, run sandbox 25%" in text
    assert text.endswith("later steps: 2 (-o wide shows them)")
    assert timeline_text("pod default/web", timeline(started_pod()), is_wide=True).count("sha256:1") == 2


def test_substeps_are_shown_below_their_step() -> None:
    line = timeline(started_pod())
    short = timeline_text("pod default/web", line, is_wide=False).splitlines()
    assert [row[:24].rstrip() for row in short[3:5]] == ["  webhook policy.exam…", "  write to the store"]
    assert "\n  ServiceAccount" in timeline_text("pod default/web", line, is_wide=True)


def test_text_of_a_pod_that_is_not_running_yet() -> None:
    line = timeline([record("apiserver", "create", 0.0, 0.1, "201", actor="admin")])
    assert "not running yet" in timeline_text("pod default/web", line, is_wide=True)


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ([], "not running yet"),
        (["Pending"], "not running yet"),
        (["Pending, web: ErrImagePull"], "not running yet: web: ErrImagePull"),
        (["Pending", "Running"], "running after 2.00s, not ready yet"),
        (["Running", "Running, web: CrashLoopBackOff"], "running after 1.00s, not ready yet: web: CrashLoopBackOff"),
        (["Running", "Running, ready"], "running after 1.00s, ready after 2.00s"),
        (["Running, ready", "Running, web: Error"], "running after 1.00s, ready after 1.00s"),
        (["Pending", "Succeeded"], "succeeded after 2.00s"),
        (["Failed, OutOfcpu"], "failed after 1.00s: OutOfcpu"),
    ],
)
def test_summary_says_what_the_status_says(states: list[str], text: str) -> None:
    created = record("apiserver", "create", 0.0, 0.1, "201", actor="admin")
    reports = [
        record("apiserver", "patch", second, second, "200", subject="pods/default/web/status", state=state)
        for second, state in enumerate(states, 1)
    ]
    assert summary(timeline([created, *reports])) == text
