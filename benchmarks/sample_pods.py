"""Pods as JSON values, of the size that pods in real clusters have."""

from typing import Any

TIME = "2026-11-15T08:58:10Z"


def condition(kind: str, status: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def pending_pod() -> dict[str, Any]:
    """Return a pod of about 3.5 KB with its defaults, as it comes from the store."""
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


def running_pod() -> dict[str, Any]:
    """Return a pod of 3.5 KB with two containers that run."""
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
            "containers": [_container("web"), _container("sidecar")],
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
            "containerStatuses": [_container_status("web"), _container_status("sidecar")],
            "qosClass": "Burstable",
        },
    }


def _container(name: str) -> dict[str, Any]:
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


def _container_status(name: str) -> dict[str, Any]:
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


def hollow_pod(number: int, nodes: int) -> dict[str, Any]:
    """Return a pod that is bound to one of the hollow nodes."""
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": f"app-{number % 100}"}},
        "spec": {"nodeName": f"node-{number % nodes}", "containers": [container]},
    }
