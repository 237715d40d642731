"""The Ingress controller of `sampan up --ingress`, with kubectl and curl as clients on the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from sampan.network.nodes import unsupported_reason
from tests.cli.command import Sampan
from tests.e2e.machine import PORT, Machine, wait_for
from tests.ports import free_port

pytestmark = pytest.mark.skipif(
    bool(unsupported_reason())
    or not (shutil.which("runc") or shutil.which("crun"))
    or not (shutil.which("kubectl") and shutil.which("curl")),
    reason=unsupported_reason() or "needs runc or crun, kubectl and curl",
)

HOST, SECURE_HOST = "web.example", "secure.example"
HEADERS = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path}\\n{self.headers}".encode())
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""


class IngressMachine(Machine):
    """A cluster with an Ingress controller."""

    def kubectl(self, *words: str) -> str:
        environment = self.sampan.environment | {"KUBECONFIG": str(self.sampan.directory() / "admin.kubeconfig")}
        result = subprocess.run(["kubectl", *words], env=environment, capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def apply(self, obj: dict[str, Any]) -> None:
        manifest = self.sampan.home / f"{obj['kind']}-{obj['metadata']['name']}.json"
        manifest.write_text(json.dumps(obj))
        self.kubectl("apply", "-f", str(manifest))

    def address(self, name: str) -> str:
        """Return the address in the status of an Ingress."""

        def read() -> str:
            return self.kubectl("get", "ingress", name, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")

        return wait_for(read, lambda: self.kubectl("describe", "service", "-n", "kube-system", "sampan-ingress"))

    def fetch(self, url: str, address: str, *words: str) -> tuple[int, str]:
        """Return the status code and the body that curl gets if the host of the URL has that address."""
        host, port = url.split("/")[2], 443 if url.startswith("https") else 80
        command = ["curl", "-sS", "-m", "10", "--path-as-is", "--resolve", f"{host}:{port}:{address}", *words]
        result = subprocess.run([*command, "-w", "\n%{http_code}", url], capture_output=True, text=True, timeout=30)
        body, _, code = result.stdout.rpartition("\n")
        return int(code or 0), body + result.stderr


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngressMachine]:
    sampan = Sampan(tmp_path_factory.mktemp("ingress"))
    nodes = ("--nodes", "2", "--runtime", "oci")
    sampan("up", "--detach", "--ingress", *nodes, "--secure-port", str(free_port()))
    try:
        machine = IngressMachine(sampan)
        machine.create("one", "node-0", labels={"app": "web"})
        machine.create("two", "node-1", labels={"app": "web"})
        headers = {"command": ["python3", "-c", HEADERS]}
        machine.create("headers", "node-1", labels={"app": "headers"}, container=headers)
        for name in ("web", "headers", "empty"):
            ports = [{"name": "http", "port": 80, "targetPort": PORT}]
            spec = {"selector": {"app": name}, "ports": ports}
            machine.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
        for name in ("one", "two", "headers"):
            machine.pod_ip(name)
        yield machine
    finally:
        sampan("down")


def ingress(name: str, *paths: tuple[str, str, str], host: str = HOST, **spec: Any) -> dict[str, Any]:
    entries = [
        {"path": path, "pathType": kind, "backend": {"service": {"name": service, "port": {"name": "http"}}}}
        for path, kind, service in paths
    ]
    rules = [{"host": host, "http": {"paths": entries}}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name},
        "spec": {"rules": rules, **spec},
    }


def test_ingress_routes_by_host_and_path(machine: IngressMachine) -> None:
    paths = [("/", "Prefix", "web"), ("/headers", "Prefix", "headers"), ("/empty", "Exact", "empty")]
    machine.apply(ingress("web", *paths))
    assert machine.kubectl("get", "ingress", "web", "-o", "jsonpath={.spec.ingressClassName}") == "sampan"
    address = machine.address("web")
    wait_for(lambda: "ok" if machine.fetch(f"http://{HOST}/", address)[0] == 200 else "")
    names = {machine.fetch(f"http://{HOST}/", address)[1].split()[0] for _ in range(6)}
    assert names == {"one", "two"}, "round robin over the nodes"
    assert machine.fetch(f"http://{HOST}/empty", address)[0] == 503
    assert machine.fetch("http://other.example/", address)[0] == 404

    code, text = machine.fetch(f"http://{HOST}/headers/x%2fy?q=1", address, "-H", "X-Forwarded-For: 1.2.3.4")
    lines = text.splitlines()
    assert (code, lines[0]) == (200, "/headers/x%2fy?q=1")
    assert machine.fetch(f"http://{HOST}/headers/../x", address)[0] == 400
    host_address = machine.node_ip("node-0").rpartition(".")[0] + ".1"
    assert f"X-Forwarded-For: {host_address}" in lines, "the address of the client"
    assert {f"X-Forwarded-Host: {HOST}", "X-Forwarded-Proto: http", "X-Forwarded-Port: 80"} <= set(lines)


def test_tls_certificate_follows_its_secret(machine: IngressMachine) -> None:
    machine.apply(
        ingress(
            "secure",
            ("/", "Prefix", "web"),
            host=SECURE_HOST,
            tls=[{"hosts": [SECURE_HOST], "secretName": "secure-tls"}],
        )
    )
    address, home = machine.address("secure"), machine.sampan.home
    wait_for(lambda: "ok" if machine.fetch(f"https://{SECURE_HOST}/", address, "-k")[0] == 200 else "")
    code, text = machine.fetch(f"https://{SECURE_HOST}/", address, "-k", "-v")
    assert (code, "Sampan Ingress Controller Default Certificate" in text) == (200, True)
    wait_for(lambda: "ok" if "UnusableSecret" in machine.kubectl("get", "events") else "")
    for number in range(2):
        ca = make_ca(f"ca-{number}", now=time.time())
        pair = issue(ca, SigningRequest(common_name="x", dns_names=[SECURE_HOST], is_server=True), now=time.time())
        files = {name: Path(home / f"{number}-{name}") for name in ("ca", "crt", "key")}
        for name, content in (("ca", ca.certificate), ("crt", pair.certificate), ("key", pair.key)):
            files[name].write_bytes(content)
        words = ("create", "secret", "tls", "secure-tls", f"--cert={files['crt']}", f"--key={files['key']}")
        manifest = home / f"secret-{number}.yaml"
        manifest.write_text(machine.kubectl(*words, "--dry-run=client", "-o", "yaml"))
        machine.kubectl("apply", "-f", str(manifest))

        def is_trusted(ca_file: Path = files["ca"]) -> str:
            code, _ = machine.fetch(f"https://{SECURE_HOST}/", address, "--cacert", str(ca_file))
            return "ok" if code == 200 else ""

        wait_for(is_trusted)


def test_ingress_address_moves_when_its_node_stops(machine: IngressMachine) -> None:
    host = "moved.example"
    machine.apply(ingress("moved", ("/", "Prefix", "web"), host=host))
    address = machine.address("moved")
    wait_for(lambda: "ok" if machine.fetch(f"http://{host}/", address)[0] == 200 else "")
    routes = subprocess.run(["ip", "route", "show", address], capture_output=True, text=True).stdout
    name = next(name for name in ("node-0", "node-1") if f"via {machine.node_ip(name)} " in routes)
    machine.sampan("node", "stop", name)
    wait_for(lambda: "ok" if machine.fetch(f"http://{host}/", address)[0] == 200 else "")
    machine.sampan("node", "start", name)
