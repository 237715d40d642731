"""kubectl with jobs, cron jobs and autoscalers on a cluster whose pods run: create, wait, get, describe, autoscale."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sampan.testing.cluster import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import yaml
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

CRON_JOB = yaml("""
    apiVersion: batch/v1
    kind: CronJob
    metadata:
      name: nightly
    spec:
      schedule: "0 3 * * *"
      jobTemplate:
        metadata:
          labels: {team: night}
          annotations: {note: from the template}
        spec:
          template:
            spec:
              restartPolicy: Never
              containers:
              - name: main
                image: busybox
    """)
JOB = """
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: {name}
    spec:
      completions: {completions}
      parallelism: {completions}
      backoffLimit: 0
      ttlSecondsAfterFinished: {ttl}
      template:
        metadata:
          annotations: {{hollow.sampan.dev/run: 200ms, hollow.sampan.dev/exit-code: "{code}"}}
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: busybox
    """
DEPLOYMENT = yaml("""
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
    spec:
      replicas: 1
      selector:
        matchLabels: {app: web}
      template:
        metadata:
          labels: {app: web}
        spec:
          containers:
          - name: main
            image: nginx:1
            resources: {requests: {cpu: 100m}}
    """)


def job(name: str, *, completions: int = 1, code: int = 0, ttl: str = "null") -> str:
    return yaml(JOB.format(name=name, completions=completions, code=code, ttl=ttl))


@pytest.fixture(scope="module")
def sampan_cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


def test_created_job_completes(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    assert kubectl("create", "job", "hello", "--image=busybox", "--", "echo", "hi") == "job.batch/hello created\n"
    output = kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=60s")
    assert output == "job.batch/hello condition met\n"
    status = objects.get("job/hello")["status"]
    assert (status["succeeded"], status["ready"], status["terminating"]) == (1, 0, 0)
    assert [condition["type"] for condition in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    (pod,) = objects.list("pods", labels="job-name=hello")
    assert pod["status"]["phase"] == "Succeeded"
    assert "finalizers" not in pod["metadata"]
    described = kubectl("describe", "job", "hello")
    assert "1 Succeeded / 0 Failed" in described
    assert "Created pod: hello-" in described
    assert "Job completed" in described


def test_job_table(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(job("three", completions=3))
    objects.wait_for("job/three", "condition=Complete")
    cells = dict(zip(*kubectl.table("get", "jobs"), strict=True))
    assert (cells["NAME"], cells["COMPLETIONS"]) == ("three", "3/3")
    if "STATUS" in cells:
        assert cells["STATUS"] == "Complete"


def test_failed_job_reports_backoff_limit_exceeded(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(job("broken", code=3))
    kubectl("wait", "--for=condition=failed", "job/broken", "--timeout=60s")
    assert "Warning  BackoffLimitExceeded" in kubectl("describe", "job", "broken")


def test_job_with_zero_ttl_is_deleted_after_it_finishes(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(job("brief", ttl="0"))
    kubectl.wait_for_deletion("job/brief")
    assert objects.names("jobs") == set()


def test_deleting_a_job_deletes_its_pods_and_prints_no_warning(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(job("gone"))
    objects.wait_for("job/gone", "condition=Complete")
    (pod,) = objects.names("pods")
    done = kubectl.run("delete", "job", "gone")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('job.batch "gone" deleted')
    objects.wait_for(f"pod/{pod}", "delete")


def test_create_a_job_from_a_cron_job(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(CRON_JOB)
    if kubectl.version < (1, 21):
        assert "batch/v1" in kubectl.fails("create", "job", "now", "--from=cronjob/nightly")
        return  # this version knows only cron jobs of batch/v1beta1
    assert kubectl("create", "job", "now", "--from=cronjob/nightly") == "job.batch/now created\n"
    objects.wait_for("job/now", "condition=Complete")
    metadata = objects.get("job/now")["metadata"]
    assert metadata["labels"]["team"] == "night"
    assert metadata["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert metadata["annotations"]["note"] == "from the template"
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "nightly", True)
    assert "UnexpectedJob" in kubectl("describe", "cronjob", "nightly")
    assert objects.get("cronjob/nightly")["status"]["lastSuccessfulTime"]
    kubectl("delete", "cronjob", "nightly")
    objects.wait_for("job/now", "delete")


def test_suspend_and_resume_a_job(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(job("later").replace("backoffLimit: 0", "suspend: true"))
    kubectl("wait", "--for=condition=suspended", "job/later", "--timeout=60s")
    assert objects.names("pods") == set()
    kubectl("patch", "job", "later", "-p", '{"spec": {"suspend": false}}')
    kubectl("wait", "--for=condition=complete", "job/later", "--timeout=60s")


def test_autoscale_a_deployment(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(DEPLOYMENT)
    output = kubectl("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=80")
    assert output == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    kubectl("wait", "--for=condition=AbleToScale", "hpa/web", "--timeout=60s")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert objects.get("deployment/web")["spec"]["replicas"] == 2
    described = kubectl("describe", "hpa", "web")
    assert "New size: 2; reason: Current number of replicas below Spec.MinReplicas" in described
    assert "SucceededRescale" in described
    row = kubectl.table("get", "hpa")[1]
    assert row[:2] == ["web", "Deployment/web"]
