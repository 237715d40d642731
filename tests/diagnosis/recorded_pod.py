"""Flight recorder records of the start of a pod, as the components write them."""

from typing import Any

KUBELET = "kubelet/node-0"
PARTS = "ServiceAccount=1000+50;webhook policy.example.com=20000+30000;write to the store=60000+20000"


def record(component: str, action: str, start: float, end: float, outcome: str = "", **fields: Any) -> dict[str, Any]:
    fields.setdefault("subject", "pods/default/web")
    return {
        "component": component,
        "action": action,
        "time": 100 + end,
        "took": end - start,
        "outcome": outcome,
        **fields,
    }


def started_pod() -> list[dict[str, Any]]:
    """A pod that was Running after one second; the kubelet saw the binding before the scheduler had the response."""
    node = "system:node:node-0"
    return [
        record("apiserver", "create", 0.0, 0.1, "201", actor="admin", parts=PARTS),
        record("kube-scheduler", "schedule", 0.2, 0.25, "node-0", parts="wait in the queue=-120000+120000"),
        record("kube-scheduler", "bind", 0.25, 0.32, "node-0"),
        record(KUBELET, "see and admit", 0.3, 0.301),
        record(KUBELET, "create cgroups", 0.301, 0.31),
        record(KUBELET, "report status", 0.305, 0.4, "Pending"),
        record("apiserver", "patch", 0.31, 0.39, "200", actor=node, subject="pods/default/web/status"),
        record(KUBELET, "create data directories", 0.31, 0.32),
        record(KUBELET, "mount volumes", 0.32, 0.35),
        record(KUBELET, "run sandbox", 0.35, 0.6),
        record(KUBELET, "pull image", 0.6, 0.9, "web sha256:1"),
        record(KUBELET, "start container", 0.9, 0.95, "web oci://1"),
        record(KUBELET, "report status", 0.95, 1.0, "Running"),
        record(KUBELET, "readiness probe", 2.9, 2.94, "web passed"),
        record(KUBELET, "report status", 2.95, 3.0, "Running, ready"),
        record("endpointslice-controller", "add to EndpointSlice", 3.1, 3.1, "web-1 of service web"),
        record("dns", "add to DNS", 3.2, 3.2, "web.default.svc: cluster IP 10.96.0.7"),
        record("kube-proxy/node-0", "add to proxy rules", 3.3, 3.3, "service web"),
        record("kube-proxy/node-1", "add to proxy rules", 3.4, 3.4, "service web"),
        record(KUBELET, "pull image", 9.0, 9.1, "web sha256:1"),
    ]
