"""kubectl with jobs, cron jobs and autoscalers on a cluster whose pods run: create, wait, get, describe, autoscale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing.cluster import Cluster
from tests.e2e.kubectl.command import Kubectl, find
from tests.e2e.kubectl.manifests import yaml

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
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def kubectl(cluster: Cluster, kubectl_home: Path) -> Iterator[Kubectl]:
    program = find()
    if program is None:
        pytest.skip("there is no kubectl here")
    with cluster.namespace("batch") as namespace:
        yield Kubectl(program=program, kubeconfig=cluster.kubeconfig_for(namespace), home=kubectl_home)


def wait_until_gone(kubectl: Kubectl, name: str) -> None:
    """Wait for the deletion of an object. kubectl fails if the object is already gone, with a message that depends on
    the version."""
    done = kubectl.run("wait", "--for=delete", name, "--timeout=60s")
    assert done.returncode == 0 or "NotFound" in done.stderr or "no matching resources" in done.stderr


def test_created_job_completes(kubectl: Kubectl) -> None:
    assert kubectl("create", "job", "hello", "--image=busybox", "--", "echo", "hi") == "job.batch/hello created\n"
    output = kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=60s")
    assert output == "job.batch/hello condition met\n"
    status = kubectl.json("get", "job", "hello")["status"]
    assert (status["succeeded"], status["ready"], status["terminating"]) == (1, 0, 0)
    assert [condition["type"] for condition in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    (pod,) = kubectl.json("get", "pods", "-l", "job-name=hello")["items"]
    assert pod["status"]["phase"] == "Succeeded"
    assert "finalizers" not in pod["metadata"]
    described = kubectl("describe", "job", "hello")
    assert "1 Succeeded / 0 Failed" in described
    assert "Created pod: hello-" in described
    assert "Job completed" in described


def test_job_table(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("three", completions=3))
    kubectl("wait", "--for=condition=complete", "job/three", "--timeout=60s")
    cells = dict(zip(*kubectl.table("get", "jobs"), strict=True))
    assert (cells["NAME"], cells["COMPLETIONS"]) == ("three", "3/3")
    if "STATUS" in cells:
        assert cells["STATUS"] == "Complete"


def test_failed_job_reports_backoff_limit_exceeded(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("broken", code=3))
    kubectl("wait", "--for=condition=failed", "job/broken", "--timeout=60s")
    assert "Warning  BackoffLimitExceeded" in kubectl("describe", "job", "broken")


def test_job_with_zero_ttl_is_deleted_after_it_finishes(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("brief", ttl="0"))
    wait_until_gone(kubectl, "job/brief")


def test_deleting_a_job_deletes_its_pods(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("gone"))
    kubectl("wait", "--for=condition=complete", "job/gone", "--timeout=60s")
    pods = kubectl("get", "pods", "-o", "name").split()
    assert kubectl("delete", "job", "gone") == 'job.batch "gone" deleted\n'
    for name in pods:
        wait_until_gone(kubectl, name)


def test_create_a_job_from_a_cron_job(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=CRON_JOB)
    if kubectl.version < (1, 21):
        assert "batch/v1" in kubectl.fails("create", "job", "now", "--from=cronjob/nightly")
        return  # this version knows only cron jobs of batch/v1beta1
    assert kubectl("create", "job", "now", "--from=cronjob/nightly") == "job.batch/now created\n"
    kubectl("wait", "--for=condition=complete", "job/now", "--timeout=60s")
    metadata = kubectl.json("get", "job", "now")["metadata"]
    assert metadata["labels"]["team"] == "night"
    assert metadata["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert metadata["annotations"]["note"] == "from the template"
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "nightly", True)
    assert "UnexpectedJob" in kubectl("describe", "cronjob", "nightly")
    assert kubectl.jsonpath("get", "cronjob", "nightly", "{.status.lastSuccessfulTime}")
    kubectl("delete", "cronjob", "nightly")
    wait_until_gone(kubectl, "job/now")


def test_suspend_and_resume_a_job(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("later").replace("backoffLimit: 0", "suspend: true"))
    kubectl("wait", "--for=condition=suspended", "job/later", "--timeout=60s")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("patch", "job", "later", "-p", '{"spec": {"suspend": false}}')
    kubectl("wait", "--for=condition=complete", "job/later", "--timeout=60s")


def test_autoscale_a_deployment(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    output = kubectl("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=80")
    assert output == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    kubectl("wait", "--for=condition=AbleToScale", "hpa/web", "--timeout=60s")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert kubectl.jsonpath("get", "deployment", "web", "{.spec.replicas}") == "2"
    described = kubectl("describe", "hpa", "web")
    assert "New size: 2; reason: Current number of replicas below Spec.MinReplicas" in described
    assert "SucceededRescale" in described
    row = kubectl.table("get", "hpa")[1]
    assert row[:2] == ["web", "Deployment/web"]
