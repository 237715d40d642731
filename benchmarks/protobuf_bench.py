"""The protobuf codec on a pod of 3.5 KB of JSON, and what the first use of its tables costs."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import Row

TIME = "2026-11-15T08:58:10Z"


def container(name: str) -> dict[str, Any]:
    port = {"containerPort": 8080, "protocol": "TCP", "name": "http"}
    probe = {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
    }
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:1.27.3",
        "args": ["--verbose", "--listen=:8080"],
        "ports": [port],
        "env": [{"name": "MODE", "value": "production"}, {"name": "WORKERS", "value": "4"}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [
            {"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        ],
        "livenessProbe": probe | {"successThreshold": 1, "failureThreshold": 3},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def container_status(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": {"running": {"startedAt": TIME}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.com/team/{name}:1.27.3",
        "imageID": "sha256:9d1b7a3c5f8e2d4b6a0c9e8f7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a",
        "containerID": "containerd://0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "started": True,
    }


def pod() -> dict[str, Any]:
    conditions = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    owned = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}}}},
    }
    manager = {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": TIME}
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "web-7d4b9c6f5-x2x9k",
            "generateName": "web-7d4b9c6f5-",
            "namespace": "default",
            "uid": "bd1a5f7a-d827-4ec2-9e15-b8c6411b864a",
            "resourceVersion": "281234",
            "creationTimestamp": TIME,
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5", "tier": "front"},
            "annotations": {"example.com/checksum": "5f8e2d4b6a0c9e8f7d6c5b4a39281706"},
            "managedFields": [manager | {"fieldsType": "FieldsV1", "fieldsV1": owned}],
        },
        "spec": {
            "volumes": [{"name": "token", "projected": {"sources": [token], "defaultMode": 420}}],
            "containers": [container("web"), container("sidecar")],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": "node-17",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": TIME} for kind in conditions],
            "hostIP": "10.0.0.17",
            "podIP": "10.244.3.21",
            "podIPs": [{"ip": "10.244.3.21"}],
            "startTime": TIME,
            "containerStatuses": [container_status("web"), container_status("sidecar")],
            "qosClass": "Burstable",
        },
    }


def best_us(work: Callable[[], object], rounds: int = 9, times: int = 200) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - start)
    return best / times * 1e6


def rows() -> Iterator[Row]:
    start = time.process_time()
    from sampan.api.codec import protobuf

    obj = pod()
    data = protobuf.encode(obj)
    protobuf.decode(data)
    first_ms = (time.process_time() - start) * 1e3
    note = f"{len(json.dumps(obj, separators=(',', ':')))} bytes of JSON, {len(data)} of protobuf"
    yield Row("protobuf: first use (import, table, a pod)", first_ms, "ms", None)
    yield Row("protobuf: decode a pod", best_us(lambda: protobuf.decode(data)), "us", 300, note)
    yield Row("protobuf: encode a pod", best_us(lambda: protobuf.encode(obj)), "us", 300, note)
