"""Patches of a pod as the API server and `kubectl apply` see them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import Row
from sampan.api import schemas
from sampan.api.schema import copy_value
from sampan.machinery import patch

POD = "io.k8s.api.core.v1.Pod"


def rows() -> Iterator[Row]:
    schema, live = schemas.definition(POD), pod()
    status = {"status": {"phase": "Running", "conditions": [condition("Ready", "True")]}}
    yield Row(
        "strategic patch of a pod's status", us(lambda: patch.apply_strategic_patch(live, status, schema)), "us", 60
    )
    yield Row("merge patch of a pod's status", us(lambda: patch.apply_merge_patch(live, status)), "us")
    labels = [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]
    yield Row("JSON patch of a pod's label", us(lambda: patch.apply_json_patch(live, labels)), "us")
    applied = {key: live[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    wanted = copy_value(applied)
    wanted["spec"]["containers"][0]["image"] = "nginx:1.26"
    made = us(lambda: patch.three_way_strategic_diff(applied, wanted, live, schema))
    yield Row("three-way strategic diff of a pod", made, "us")


def us(work: Callable[[], Any], rounds: int = 5, times: int = 500) -> float:
    """Microseconds for one call, in the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            work()
        best = min(best, time.perf_counter() - start)
    return best / times * 1e6


def condition(kind: str, status: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def pod() -> dict[str, Any]:
    """About 3.5 KB with its defaults, as it comes from the store."""
    container = {
        "name": "main",
        "image": "nginx:1.25",
        "command": ["nginx", "-g", "daemon off;"],
        "env": [{"name": f"VAR_{i}", "value": "x" * 20} for i in range(8)],
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "readinessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/token"}],
    }
    owned: dict[str, Any] = {f'k:{{"name":"c{i}"}}': {"f:image": {}, "f:name": {}} for i in range(28)}
    managed = {"f:spec": {"f:containers": owned}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "bench-1",
            "namespace": "bench",
            "uid": "6a3f4f0e-8a44-4c3e-9a53-3a1b6f0f4f11",
            "labels": {"app": "bench", "shard": "1"},
            "managedFields": [
                {"manager": "bench", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": managed}
            ],
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": f"k{i}", "operator": "Exists", "effect": "NoExecute"} for i in range(2)],
        },
        "status": {
            "phase": "Pending",
            "qosClass": "Burstable",
            "conditions": [
                condition(kind, "False") for kind in ("PodScheduled", "Initialized", "Ready", "ContainersReady")
            ],
        },
    }
