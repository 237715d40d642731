"""KEDA without its metrics adapter: a cron trigger scales from 0 to 1 and back, and starts Jobs; scaling is paused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.operators.api import Api, has_condition
from tests.operators.program import running_operator, write_webhook_certificates
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_ports

pytestmark = NEEDS_TIME_TO_BUILD

KEDA = GoModule("github.com/kedacore/keda/v2", "v2.18.0")
SCALED_OBJECTS = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = KEDA.build_or_skip("./cmd/operator", "keda-operator")
    definitions = KEDA.files_or_skip("config/crd/bases/*.yaml")
    directory = tmp_path_factory.mktemp("keda")
    write_webhook_certificates(directory)
    metrics, health, service = free_ports(3)
    command = [
        str(program),
        "--leader-elect",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--metrics-service-bind-address=127.0.0.1:{service}",
        f"--cert-dir={directory}",
    ]
    with Cluster(nodes=2) as cluster:
        cluster.apply([*definitions, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "keda"}}])
        environment = {
            "KUBECONFIG": str(cluster.kubeconfig),
            "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": "keda",
        }
        with running_operator(command, environment, directory / "keda.log"):
            yield cluster


def cron_trigger(*, is_active: bool) -> dict[str, Any]:
    """A trigger with a daily interval that began half a day ago, or begins in half a day."""
    now = datetime.now(UTC).hour
    start, end = now + 12, now + (11 if is_active else 13)
    schedule = {"timezone": "UTC", "start": f"0 {start % 24} * * *", "end": f"0 {end % 24} * * *"}
    return {"type": "cron", "metadata": {**schedule, "desiredReplicas": "1"}}


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def scaled_object(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": 0,
            "pollingInterval": 1,
            "cooldownPeriod": 1,
            "triggers": [cron_trigger(is_active=True)],
        },
    }


def wait_for_replicas(cluster: Cluster, name: str, count: int) -> None:
    def has_replicas(value: dict[str, Any]) -> bool:
        return (value["spec"]["replicas"], value.get("status", {}).get("readyReplicas", 0)) == (count, count)

    cluster.wait_for(f"deployment/{name}", has_replicas, timeout_s=WAIT_S)


def wait_for_condition(cluster: Cluster, target: str, condition: str, status: str = "True") -> None:
    cluster.wait_for(target, lambda value: has_condition(value, condition, status), timeout_s=WAIT_S)


def test_cron_trigger_scales_a_deployment_from_zero_and_back(cluster: Cluster) -> None:
    cluster.apply([deployment("web"), scaled_object("web")])
    wait_for_replicas(cluster, "web", 1)
    wait_for_condition(cluster, "scaledobject/web", "Active")
    autoscaler = cluster.get("hpa/keda-hpa-web")
    assert [owner["kind"] for owner in autoscaler["metadata"]["ownerReferences"]] == ["ScaledObject"]
    assert autoscaler["spec"]["metrics"][0]["external"]["metric"]["name"].startswith("s0-cron-UTC-")
    Api(cluster).merge(f"{SCALED_OBJECTS}/web", {"spec": {"triggers": [cron_trigger(is_active=False)]}})
    wait_for_replicas(cluster, "web", 0)
    wait_for_condition(cluster, "scaledobject/web", "Active", "False")


def test_paused_replicas_override_the_trigger(cluster: Cluster) -> None:
    cluster.apply([deployment("paused"), scaled_object("paused")])
    wait_for_replicas(cluster, "paused", 1)
    annotate(cluster, "paused", "2")
    wait_for_condition(cluster, "scaledobject/paused", "Paused")
    annotate(cluster, "paused", "3")  # KEDA looks at the number only if the condition is in its cache
    wait_for_replicas(cluster, "paused", 3)
    annotate(cluster, "paused", None)
    wait_for_condition(cluster, "scaledobject/paused", "Paused", "False")
    cluster.wait_for("hpa/keda-hpa-paused", "create", timeout_s=WAIT_S)


def annotate(cluster: Cluster, name: str, replicas: str | None) -> None:
    patch = {"metadata": {"annotations": {PAUSED_REPLICAS: replicas}}}
    Api(cluster).merge(f"{SCALED_OBJECTS}/{name}", patch)


def test_scaled_job_starts_jobs_and_takes_them_along(cluster: Cluster) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}
    scaled_job = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "metadata": {"name": "work"},
        "spec": {
            "jobTargetRef": {"template": {"spec": pod}},
            "pollingInterval": 1,
            "maxReplicaCount": 1,
            "triggers": [cron_trigger(is_active=True)],
        },
    }
    cluster.apply(scaled_job)
    wait_for_condition(cluster, "scaledjob/work", "Active")
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    job = Api(cluster).wait_for_item(jobs, lambda value: has_condition(value, "Complete"))
    assert [(owner["kind"], owner["name"]) for owner in job["metadata"]["ownerReferences"]] == [("ScaledJob", "work")]
    cluster.delete("scaledjob/work")
    Api(cluster).wait_for(jobs, lambda page: page["items"] == [])
