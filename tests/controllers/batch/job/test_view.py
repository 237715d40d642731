"""Counts of succeeded and failed pods of a job."""

from tests.controllers.batch.job.pods import job, pod, view


def test_a_view_counts_pods_that_are_not_in_the_status_yet() -> None:
    status = {"succeeded": 1, "failed": 1, "uncountedTerminatedPods": {"succeeded": ["s"], "failed": ["f"]}}
    pods = [pod("s", "Succeeded"), pod("t", "Succeeded"), pod("f", "Failed"), pod("g", "Failed"), pod("x", "Failed")]
    new_view = view(job(status=status), *pods, released=["x"])
    assert (new_view.succeeded, new_view.failed) == (3, 3)
