"""A cluster whose nodes have network namespaces of their own on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sampan.host.linux.network_namespace import is_network
from sampan.host.netlink.routing import open_route_socket
from sampan.network.nft import list_rules
from sampan.network.nodes import bridge_of_nodes, unsupported_reason
from sampan.network.routes import POD_CIDR_PROTOCOL, gateways_through
from tests.cli.command import TIMEOUT_S, Sampan, get
from tests.eventually import wait_until

NEEDS_NODE_NETWORKS = pytest.mark.skipif(
    bool(unsupported_reason()) or not (shutil.which("runc") or shutil.which("crun")),
    reason=unsupported_reason() or "needs runc or crun",
)

PORT = 8080
SERVER = """
import http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"NAME {self.client_address[0]}".encode())
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("", PORT), Handler).serve_forever()
"""


class Machine:
    """A cluster with several nodes on this machine."""

    def __init__(self, sampan: Sampan) -> None:
        self.sampan = sampan
        self.root = sampan.directory() / "nodes"

    def is_running(self) -> bool:
        """Whether the API server responds: some tests kill or stop the cluster."""
        try:
            return get(f"{self.sampan.read_running_file()['url']}/readyz")[0] > 0
        except OSError:
            return False

    def kill(self) -> None:
        """Kill the process of the cluster, and wait until it is gone."""
        os.kill(self.sampan.read_running_file()["pid"], signal.SIGKILL)
        wait_for(lambda: "" if self.is_running() else "gone")

    def api(self, path: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.sampan("kubectl", "get", path, "-o", "json"))
        return value

    def node_ip(self, name: str) -> str:
        addresses = self.api(f"node/{name}")["status"]["addresses"]
        return next(str(entry["address"]) for entry in addresses if entry["type"] == "InternalIP")

    def create(self, name: str, node: str, *, port: int = PORT, **spec: Any) -> None:
        """Create a pod with an HTTP server that answers with the pod's name and the address of the client."""
        container = {
            "name": "server",
            "image": "sampan.local/host",
            "command": ["python3", "-c", SERVER.replace("NAME", name).replace("PORT", str(port))],
            "readinessProbe": {"httpGet": {"port": port}, "periodSeconds": 1},
            **spec.pop("container", {}),
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": spec.pop("labels", {}),
                "annotations": spec.pop("annotations", {}),
            },
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container], **spec},
        }
        manifest = self.sampan.home / f"{name}.json"
        manifest.write_text(json.dumps(pod))
        self.sampan("kubectl", "create", "-f", str(manifest))

    def pod_ip(self, name: str) -> str:
        """Return the address of a pod once its readiness probe has succeeded."""

        def ready() -> str:
            status = self.api(f"pod/{name}")["status"]
            is_ready = any(
                entry["type"] == "Ready" and entry["status"] == "True" for entry in status.get("conditions", ())
            )
            return str(status["podIP"]) if is_ready else ""

        return wait_for(ready, lambda: self.sampan("kubectl", "describe", "pod", name))

    def curl(self, pod: str, address: str) -> str:
        return self.sampan("kubectl", "exec", pod, "--", "curl", "-sS", "-m", "20", f"http://{address}/")

    def is_blocked(self, pod: str, address: str) -> bool:
        """Whether a pod gets no response in a short time."""
        command = f"curl -sS -m 1 http://{address}/ || echo blocked"
        return "blocked" in self.sampan("kubectl", "exec", pod, "--", "sh", "-c", command)


def wait_for(value: Callable[[], str], describe: Callable[[], str] = str) -> str:
    return wait_until(value, timeout_s=TIMEOUT_S, poll_s=0.2, describe=describe)


def network_state(root: Path) -> Mapping[str, list[str]]:
    """Return the links, nftables, routes and network namespaces of a cluster on the machine."""
    bridge = bridge_of_nodes(root)
    names = {name: index for index, name in socket.if_nameindex()}
    with open_route_socket() as netlink:
        routes = gateways_through(netlink, names[bridge], POD_CIDR_PROTOCOL) if bridge in names else {}
    tables = [entry["table"]["name"] for entry in list_rules("tables")["nftables"] if "table" in entry]
    return {
        "links": [name for _, name in socket.if_nameindex() if name.startswith(bridge)],
        "tables": [name for name in tables if bridge in name],
        "routes": list(routes),
        "namespaces": [str(path) for path in root.glob("*/netns") if is_network(path)],
    }


def expose(machine: Machine, name: str, app: str, port: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Create a service of type LoadBalancer, and return it once it has an address."""
    obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "selector": {"app": app}, "ports": [port], **spec},
    }
    manifest = machine.sampan.home / f"{name}-service.json"
    manifest.write_text(json.dumps(obj))
    machine.sampan("kubectl", "create", "-f", str(manifest))
    wait_for(lambda: address_of(machine, name), lambda: machine.sampan("kubectl", "describe", "service", name))
    return machine.api(f"service/{name}")


def address_of(machine: Machine, name: str) -> str:
    ingress = machine.api(f"service/{name}")["status"]["loadBalancer"].get("ingress", ())
    return str(ingress[0]["ip"]) if ingress else ""


def response(url: str) -> str:
    try:
        return get(url)[1]
    except OSError:
        return ""
