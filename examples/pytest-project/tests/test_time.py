"""Schedules, time to live and backoff pass in virtual time."""

import pytest

pytestmark = pytest.mark.sampan(level="nodes", clock="virtual")

REPORT = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 * * * *"
  jobTemplate:
    spec:
      ttlSecondsAfterFinished: 600
      template:
        metadata: {annotations: {hollow.sampan.dev/run: 5s}}
        spec:
          restartPolicy: Never
          containers: [{name: report, image: "report:1.0"}]
"""


@pytest.mark.parametrize("minutes", [1, 2, 3, 5])
def test_a_report_on_schedule(forked_cluster, namespace, minutes):
    schedule = f"*/{minutes} * * * *"
    forked_cluster.apply(REPORT.replace("0 * * * *", schedule), namespace=namespace)
    forked_cluster.advance(minutes=minutes)
    forked_cluster.advance(seconds=10)
    (job,) = forked_cluster.list("jobs", namespace=namespace)
    assert job["status"]["succeeded"] == 1


def test_finished_jobs_are_removed(forked_cluster, namespace):
    forked_cluster.apply(REPORT.replace("0 * * * *", "*/30 * * * *"), namespace=namespace)
    forked_cluster.advance(minutes=31)
    assert len(forked_cluster.list("jobs", namespace=namespace)) == 1
    forked_cluster.advance(minutes=15)
    assert forked_cluster.list("jobs", namespace=namespace) == []


def test_a_node_that_is_down_loses_its_pods(forked_cluster, namespace):
    forked_cluster.apply(REPORT.replace("0 * * * *", "* * * * *"), namespace=namespace)
    with forked_cluster.node_down("node-0"):
        forked_cluster.advance(minutes=2)
        phases = {pod["status"]["phase"] for pod in forked_cluster.list("pods", namespace=namespace)}
        assert phases == {"Pending"}
