"""An OpenTelemetry collector with the receivers of a cluster: metrics of its objects, its events, and objects that are
listed or watched."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.testing import Cluster
from tests.eventually import wait_until
from tests.operators.go_program import COLLECTOR
from tests.operators.program import Operator, running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD

pytestmark = NEEDS_TIME_TO_BUILD

REPLICAS = 2
WAIT_S = 120
RECEIVERS: dict[str, dict[str, Any]] = {
    "k8s_cluster": {"collection_interval": "1s", "node_conditions_to_report": ["Ready"]},
    "k8s_events": {},
    "k8sobjects": {
        "objects": [
            {"name": "pods", "mode": "pull", "interval": "1s"},
            {"name": "deployments", "mode": "watch", "group": "apps"},
        ]
    },
}


@dataclass(frozen=True, slots=True)
class Collector:
    cluster: Cluster
    operator: Operator
    output: Path
    """The directory with what the collector has collected: metrics.jsonl and logs.jsonl."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    program = COLLECTOR.build_or_skip()
    directory = tmp_path_factory.mktemp("collector")
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump(configuration(directory)))
    with Cluster(nodes=2) as cluster:
        cluster.apply(deployment("web"))
        environment = {"KUBECONFIG": str(cluster.kubeconfig)}
        with running_operator(
            [str(program), "--config", str(config)], environment, directory / "collector.log"
        ) as operator:
            yield Collector(cluster, operator, directory)


def configuration(directory: Path) -> dict[str, Any]:
    pipelines = {"metrics": ["k8s_cluster"], "logs": ["k8s_events", "k8sobjects"]}
    return {
        "receivers": {name: {"auth_type": "kubeConfig", **settings} for name, settings in RECEIVERS.items()},
        "exporters": {f"file/{name}": {"path": str(directory / f"{name}.jsonl")} for name in pipelines},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                name: {"receivers": names, "exporters": [f"file/{name}"]} for name, names in pipelines.items()
            },
        },
    }


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template},
    }


def read_rows(file: Path, kind: str) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Yield the complete metrics or log records of a file, each with the attributes of its resource."""
    plural, rows = {"metrics": ("resourceMetrics", "metrics"), "logs": ("resourceLogs", "logRecords")}[kind]
    for line in file.read_text().splitlines(keepends=True) if file.exists() else ():
        if line.endswith("\n"):
            for resource in json.loads(line)[plural]:
                attributes = read_attributes(resource.get("resource", {}))
                for scope in resource[f"scope{plural.removeprefix('resource')}"]:
                    yield from ((attributes, row) for row in scope[rows])


def read_attributes(value: dict[str, Any]) -> dict[str, str]:
    return {pair["key"]: pair["value"].get("stringValue", "") for pair in value.get("attributes", ())}


def read_metrics(directory: Path) -> dict[tuple[str, str], int]:
    """Return the last value of each metric by its name and the name of its object."""
    values = {}
    for attributes, metric in read_rows(directory / "metrics.jsonl", "metrics"):
        names = (attributes.get(f"k8s.{kind}.name") for kind in ("deployment", "pod", "node", "namespace"))
        point = metric["gauge"]["dataPoints"][-1] if "gauge" in metric else {}
        values[metric["name"], next(filter(None, names), "")] = int(point.get("asInt", 0))
    return values


def test_metrics_of_a_cluster_are_collected(collector: Collector) -> None:
    expected = {
        ("k8s.deployment.desired", "web"): REPLICAS,
        ("k8s.deployment.available", "web"): REPLICAS,
        ("k8s.node.condition_ready", "node-0"): 1,
        ("k8s.node.condition_ready", "node-1"): 1,
        ("k8s.namespace.phase", "kube-system"): 1,
    }
    wait_until(
        lambda: expected.items() <= read_metrics(collector.output).items(),
        timeout_s=WAIT_S,
        poll_s=0.5,
        describe=lambda: read_metrics(collector.output),
    )


def read_reasons_and_resources(directory: Path) -> tuple[set[str], set[str]]:
    """Return the reasons of the collected events, and the resources of the other collected objects."""
    attributes = [read_attributes(record) for _, record in read_rows(directory / "logs.jsonl", "logs")]
    reasons, resources = (
        {row.get(f"k8s.{name}", "") for row in attributes} for name in ("event.reason", "resource.name")
    )
    return reasons, resources


def test_events_and_objects_become_log_records(collector: Collector) -> None:
    """The receiver of events skips those before its start, and the times of events are whole seconds."""
    wait_until(lambda: "starting to watch" in collector.operator.text(), timeout_s=WAIT_S)
    started = time.time()
    wait_until(lambda: int(time.time()) > int(started))
    collector.cluster.apply(deployment("later"))

    def has_all() -> bool:
        reasons, resources = read_reasons_and_resources(collector.output)
        return reasons >= {"Scheduled", "Started", "ScalingReplicaSet"} and resources >= {"pods", "deployments"}

    wait_until(has_all, timeout_s=WAIT_S, poll_s=0.5, describe=lambda: read_reasons_and_resources(collector.output))
