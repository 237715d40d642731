"""JobSet: groups of Jobs that start in order and succeed together, with the project's own webhooks and rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from sampan.testing import Cluster
from tests.operators.api import Api, has_condition
from tests.operators.program import running_operator, write_webhook_certificates
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.operators.programs.webhook_services import NEEDS_ADDRESS, publish_service, read_webhooks
from tests.ports import free_ports

pytestmark = [NEEDS_TIME_TO_BUILD, NEEDS_ADDRESS]

JOBSET = GoModule("sigs.k8s.io/jobset", "v0.10.1")
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
SERVICE = "webhook-service"
"""The service that the manifest of the webhooks names."""
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = JOBSET.build_or_skip()
    definitions = JOBSET.files_or_skip("config/components/crd/bases/*.yaml")
    webhooks = JOBSET.files_or_skip("config/components/webhook/manifests.yaml")
    directory = tmp_path_factory.mktemp("jobset")
    certificates = directory / "k8s-webhook-server/serving-certs"
    certificates.mkdir(parents=True)
    webhook_port, metrics_port, probe_port = free_ports(3)
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump(configuration(webhook_port, metrics_port, probe_port)))
    with Cluster(nodes=2) as cluster:
        cluster.apply([*definitions, NAMESPACE])
        ca = write_webhook_certificates(certificates, f"{SERVICE}.system.svc")
        publish_service(cluster, "system", SERVICE, webhook_port)
        environment = {"KUBECONFIG": str(cluster.kubeconfig), "TMPDIR": str(directory)}
        with running_operator([str(program), "--config", str(config)], environment, directory / "jobset.log"):
            cluster.apply(list(read_webhooks(webhooks, ca)))
            yield cluster


def configuration(webhook_port: int, metrics_port: int, probe_port: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True, "resourceNamespace": "system"},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": webhook_port},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics_port}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probe_port}"},
    }


def replicated_job(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    return {"name": name, "replicas": replicas, "template": {"spec": {"completions": 2, "template": pod}}, **more}


def jobset(name: str, *jobs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": list(jobs), **spec},
    }


def create(api: Api, value: dict[str, Any]) -> dict[str, Any]:
    """Create a JobSet as soon as the server of the webhooks listens."""
    return api.create_once_accepted(JOBSETS, value)


def test_jobs_run_in_order_and_complete_the_set(cluster: Cluster) -> None:
    api = Api(cluster)
    workers = replicated_job("workers", 2, dependsOn=[{"name": "leader", "status": "Complete"}])
    created = create(api, jobset("training", replicated_job("leader", 1), workers))
    defaults = created["spec"]["replicatedJobs"][1]["template"]["spec"]
    assert (defaults["completionMode"], defaults["template"]["spec"]["restartPolicy"]) == ("Indexed", "OnFailure")
    assert created["spec"]["successPolicy"]["operator"] == "All"
    cluster.wait_for("jobset/training", lambda value: has_condition(value, "Completed"), timeout_s=120)
    jobs = {job["metadata"]["name"]: job for job in cluster.list("jobs")}
    assert set(jobs) == {"training-leader-0", "training-workers-0", "training-workers-1"}
    assert all(has_condition(job, "Complete") for job in jobs.values())
    finished = jobs["training-leader-0"]["status"]["completionTime"]
    assert all(jobs[f"training-workers-{index}"]["metadata"]["creationTimestamp"] >= finished for index in (0, 1))
    hostnames = {pod["spec"]["hostname"] for pod in cluster.list("pods")}
    assert hostnames == {
        f"training-{name}-{index}" for name in ("leader-0", "workers-0", "workers-1") for index in "01"
    }
    assert cluster.get("service/training")["spec"]["clusterIP"] == "None"


def test_failed_job_restarts_the_set_as_often_as_its_policy_allows(cluster: Cluster) -> None:
    job = replicated_job("main", 1)
    job["template"]["spec"]["backoffLimit"] = 0
    job["template"]["spec"]["template"]["metadata"] = {"annotations": {"hollow.sampan.dev/exit-code": "1"}}
    job["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    create(Api(cluster), jobset("broken", job, failurePolicy={"maxRestarts": 1}))
    failed = cluster.wait_for("jobset/broken", lambda value: has_condition(value, "Failed"), timeout_s=120)[0]
    assert failed["status"]["restarts"] == 1
    condition = next(row for row in failed["status"]["conditions"] if row["type"] == "Failed")
    assert condition["reason"] == "ReachedMaxRestarts"


def test_webhook_and_rules_refuse_invalid_sets(cluster: Cluster) -> None:
    api = Api(cluster)
    create(api, jobset("fixed", replicated_job("main", 1), suspend=True))
    invalid = jobset(
        "other", replicated_job("main", 1), successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}
    )
    reply = api.send("POST", JOBSETS, invalid)
    text = "invalid replicatedJob name 'x' does not appear in .spec.ReplicatedJobs"
    assert (reply.code, reply.message) == (403, f'admission webhook "vjobset.kb.io" denied the request: {text}')
    reply = api.send(
        "PATCH", f"{JOBSETS}/fixed", {"spec": {"network": {"subdomain": "x"}}}, "application/merge-patch+json"
    )
    assert reply.code == 422
    assert reply.message.endswith("spec.network: Invalid value: Value is immutable")
