"""A cluster with a real node and a pod that uses everything that its metrics show."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import IMAGE

EXAMPLES = Path(__file__).parents[3] / "examples/monitoring"
_SCRIPT = "while true; do dd if=/dev/zero of=/data/file bs=64k count=16 conv=fsync 2>/dev/null; sleep 1; done"
_KUBE_PROXY_PORT = 10249


def _workload() -> list[dict[str, Any]]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
    container = {
        "name": "c",
        "image": IMAGE,
        "command": ["sh", "-c", _SCRIPT],
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
        "terminationGracePeriodSeconds": 0,
    }
    labels = {"app": "monitored"}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": claim},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels}, "spec": pod},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s"},
            "spec": {"selector": labels, "ports": [{"port": 80}]},
        },
    ]


class MonitoredCluster:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        (node,) = cluster.list("nodes")
        self._node = node["metadata"]["name"]
        self._address = next(row["address"] for row in node["status"]["addresses"] if row["type"] == "InternalIP")
        self._tls = ssl.create_default_context(cafile=str(cluster.ca))
        self._tls.load_cert_chain(*cluster.client_certificate)

    def scrape(self, job: str) -> str:
        """Return the text of metrics of a job of the example configuration."""
        proxied = f"/api/v1/nodes/{self._node}/proxy/metrics"
        if job == "kube-proxy":
            return self._send(f"http://{self._address}:{_KUBE_PROXY_PORT}/metrics")
        path = {"kubelet": proxied, "cadvisor": f"{proxied}/cadvisor"}.get(job, "/metrics")
        return self._send(f"{self.cluster.url}{path}")

    def read_pods(self) -> None:
        """Send a read of each scope: service levels of the API server differ for them."""
        for path in ("/api/v1/namespaces/default/pods/p", "/api/v1/namespaces/default/pods", "/api/v1/pods"):
            self._send(f"{self.cluster.url}{path}")

    def make_token(self) -> str:
        """Return a token of the service account of Prometheus."""
        account = "/api/v1/namespaces/monitoring/serviceaccounts/prometheus"
        token: str = json.loads(self._send(f"{self.cluster.url}{account}/token", b"{}"))["status"]["token"]
        return token

    def _send(self, url: str, body: bytes | None = None) -> str:
        """Return the response to a GET, or to a POST of a JSON body."""
        tls = self._tls if url.startswith("https:") else None
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=tls, timeout=60) as response:
            text: str = response.read().decode()
            return text


@contextmanager
def running_monitored_cluster() -> Iterator[MonitoredCluster]:
    with Cluster(nodes=1, runtime="oci") as cluster:
        cluster.apply(EXAMPLES / "rbac.yaml")
        cluster.apply(_workload())
        cluster.wait_for("pod/p", "condition=Ready")
        monitored = MonitoredCluster(cluster)
        monitored.read_pods()
        yield monitored
