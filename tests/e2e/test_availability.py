"""A service under load loses no request while its pods are replaced, nor after the endpoints of a stopped node are
removed."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sampan.host.linux.network_namespace import run_in_network
from sampan.network.nft import run_nft
from tests.cli.command import Sampan
from tests.e2e.machine import NEEDS_NODE_NETWORKS, PORT, Machine, address_of, expose, wait_for
from tests.eventually import wait_until

pytestmark = NEEDS_NODE_NETWORKS

SERVER = f"""
import os, signal, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ['VERSION'].encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
class Server(ThreadingHTTPServer):
    request_queue_size, daemon_threads, block_on_close = 128, False, True
server = Server(('', {PORT}), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
server.server_close()
"""
NODE_GRACE_PERIOD_S = 50
"""How long the node controller waits for the heartbeats of a node."""
INTERVAL_S = 0.02


class Load:
    """Requests to an address at a bounded rate, one connection each."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.responses: Counter[str] = Counter()
        self._is_over = threading.Event()

    def failures(self) -> dict[str, int]:
        return {text: count for text, count in self.responses.items() if not text.startswith("v")}

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(INTERVAL_S):
            connection = http.client.HTTPConnection(self._address, timeout=30)
            try:
                connection.request("GET", "/")
                self.responses[connection.getresponse().read().decode()] += 1
            except (OSError, http.client.HTTPException) as error:
                self.responses[repr(error)] += 1
            finally:
                connection.close()


def deployment(version: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    container = {
        "name": "server",
        "image": "sampan.local/host",
        "command": ["python3", "-c", SERVER],
        "env": [{"name": "VERSION", "value": version}],
        "readinessProbe": {"httpGet": {"port": PORT}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }
    toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    pod = {
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "topologySpreadConstraints": [spread],
        "tolerations": [toleration],
    }
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "strategy": update,
            "selector": selector,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }


def roll_out(machine: Machine, version: str) -> None:
    manifest = machine.sampan.home / "deployment.json"
    manifest.write_text(json.dumps(deployment(version)))
    machine.sampan("kubectl", "apply", "-f", str(manifest))

    def is_complete() -> str:
        obj = machine.api("deployment/web")
        status = obj["status"]
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")]
        is_observed = status.get("observedGeneration") == obj["metadata"]["generation"]
        return "complete" if is_observed and counts == [3, 3, 3] else ""

    wait_for(is_complete, lambda: machine.sampan("kubectl", "get", "pods"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    sampan = Sampan(tmp_path_factory.mktemp("availability"))
    sampan("up", "--detach", "--nodes", "2", "--runtime", "oci")
    try:
        machine = Machine(sampan)
        roll_out(machine, "v1")
        expose(machine, "web", "web", {"port": 80, "targetPort": PORT})
        yield machine
    finally:
        sampan("down")


def test_a_rolling_update_loses_no_request(machine: Machine) -> None:
    load = Load(address_of(machine, "web"))
    with load.running():
        wait_for(lambda: "old" if load.responses["v1"] else "")
        roll_out(machine, "v2")
        before = load.responses["v2"]
        wait_for(lambda: "new" if load.responses["v2"] > before + 50 else "")
    assert load.failures() == {}
    assert load.responses["v1"]


def test_no_request_fails_after_the_endpoints_of_a_stopped_node_are_removed(machine: Machine) -> None:
    """Connections to the endpoints of the node fail until the node controller misses its heartbeats, as in any cluster.
    Afterwards none fails, also not through the load balancer address that another node has taken over."""
    addresses = endpoints_on(machine, "node-1")
    machine.sampan("node", "stop", "node-1")
    try:
        wait_until(lambda: not endpoints_on(machine, "node-1"), timeout_s=3 * NODE_GRACE_PERIOD_S, poll_s=1)
        wait_until(lambda: not [address for address in addresses if address in rules_of(machine, "node-0")])
        load = Load(address_of(machine, "web"))
        with load.running():
            wait_for(lambda: "enough" if sum(load.responses.values()) > 200 else "")
        assert load.failures() == {}
    finally:
        machine.sampan("node", "start", "node-1")


def rules_of(machine: Machine, node: str) -> str:
    """Return the packet rules that kube-proxy and the pod network have written on a node."""
    return run_in_network(machine.root / node / "netns", lambda: run_nft("list", "ruleset")).decode()


def endpoints_on(machine: Machine, node: str) -> list[str]:
    """Return the addresses of the ready endpoints of the service on a node."""
    slices = json.loads(machine.sampan("kubectl", "get", "endpointslices", "-o", "json"))["items"]
    own = [item for item in slices if item["metadata"]["labels"].get("kubernetes.io/service-name") == "web"]
    endpoints = [endpoint for item in own for endpoint in item.get("endpoints") or ()]
    return [
        address
        for endpoint in endpoints
        if endpoint.get("nodeName") == node and endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    ]
