"""kube-state-metrics: metrics of built-in and custom objects, without errors of its lists and watches."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.testing import Cluster
from tests.eventually import wait_until
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_ports

pytestmark = NEEDS_TIME_TO_BUILD

KUBE_STATE_METRICS = GoModule("k8s.io/kube-state-metrics/v2", "v2.18.0")
DEFINITION = Path(__file__).parents[1] / "clients/definition.yaml"


@dataclass(frozen=True, slots=True)
class Exporter:
    cluster: Cluster
    port: int
    telemetry_port: int

    def read(self, port: int = 0) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port or self.port}/metrics", timeout=60) as response:
            return str(response.read().decode())

    def wait_for_sample(self, pattern: str) -> None:
        """Wait until a line of the metrics matches a regular expression."""
        wait_until(
            lambda: re.search(f"^{pattern}$", self.read(), re.MULTILINE), ignore=(OSError,), describe=lambda: pattern
        )


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exporter]:
    program = KUBE_STATE_METRICS.build_or_skip(".", "kube-state-metrics")
    directory = tmp_path_factory.mktemp("metrics")
    config = directory / "resources.yaml"
    config.write_text(yaml.safe_dump(custom_resource_metrics()))
    port, telemetry_port = free_ports(2)
    command = [str(program), "--host=127.0.0.1", f"--port={port}"]
    command += ["--telemetry-host=127.0.0.1", f"--telemetry-port={telemetry_port}"]
    command += [f"--custom-resource-state-config-file={config}"]
    with Cluster(nodes=2) as cluster:
        command.append(f"--kubeconfig={cluster.kubeconfig}")
        with running_operator(command, {}, directory / "kube-state-metrics.log"):
            yield Exporter(cluster, port, telemetry_port)


def custom_resource_metrics() -> dict[str, Any]:
    gauge = {"path": ["spec", "masts"]}
    resource = {
        "groupVersionKind": {"group": "example.com", "version": "v1", "kind": "Ship"},
        "labelsFromPath": {"name": ["metadata", "name"]},
        "metrics": [{"name": "masts", "help": "masts", "each": {"type": "Gauge", "gauge": gauge}}],
    }
    return {"kind": "CustomResourceStateMetrics", "spec": {"resources": [resource]}}


def test_metrics_follow_the_objects_of_the_cluster(exporter: Exporter) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    exporter.cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    exporter.wait_for_sample('kube_deployment_status_replicas_ready{namespace="default",deployment="web"} 3')
    exporter.wait_for_sample('kube_node_status_condition{node="node-0",condition="Ready",status="true"} 1')
    exporter.wait_for_sample(r'kube_pod_container_status_running{namespace="default",pod="web-[^"]*",.*} 1')
    exporter.cluster.delete("deployment/web")
    wait_until(lambda: 'deployment="web"' not in exporter.read())


def test_custom_resources_have_metrics_once_they_are_defined(exporter: Exporter) -> None:
    exporter.cluster.apply(DEFINITION)
    exporter.cluster.apply({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "junk"}, "spec": {}})
    exporter.wait_for_sample(r'kube_customresource_masts{.*name="junk".*} 4')


def test_no_list_and_no_watch_fails(exporter: Exporter) -> None:
    exporter.wait_for_sample('kube_namespace_status_phase{namespace="default",phase="Active"} 1')
    telemetry = exporter.read(exporter.telemetry_port)
    assert 'kube_state_metrics_watch_total{resource="*v1.Pod",result="success"}' in telemetry
    assert not re.findall(r'.*result="error"} [1-9].*', telemetry)
