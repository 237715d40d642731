"""CoreDNS with its kubernetes plugin answers for the services and pods of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dns.exception
import dns.message
import dns.query
import dns.rcode
import pytest

from sampan.testing import Cluster
from tests.eventually import wait_until
from tests.operators.go_program import COREDNS
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD
from tests.ports import free_ports

pytestmark = NEEDS_TIME_TO_BUILD

COREFILE = """
cluster.local:{port} in-addr.arpa:{port} {{
    bind 127.0.0.1
    errors
    ready 127.0.0.1:{ready}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods verified
        ttl 0
    }}
}}
"""
TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class NameServer:
    cluster: Cluster
    port: int

    def ask(self, name: str, type_: str) -> dns.message.Message:
        question = dns.message.make_query(f"{name}.cluster.local.", type_)
        return dns.query.udp(question, "127.0.0.1", timeout=TIMEOUT_S, port=self.port)

    def records(self, name: str, type_: str = "A") -> list[str]:
        """Return the records of a name in the cluster's domain, without TTL and class."""
        return sorted(str(record) for rrset in self.ask(name, type_).answer for record in rrset)

    def wait_for(self, name: str, expected: list[str], type_: str = "A") -> None:
        wait_until(
            lambda: self.records(name, type_) == expected,
            ignore=(OSError, dns.exception.Timeout),
            describe=lambda: f"{name} {type_}: expected {expected}",
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServer]:
    program = COREDNS.build_or_skip()
    directory = tmp_path_factory.mktemp("coredns")
    port, ready = free_ports(2)
    with Cluster(nodes=1) as cluster:
        config = directory / "Corefile"
        config.write_text(COREFILE.format(port=port, ready=ready, kubeconfig=cluster.kubeconfig))
        with running_operator([str(program), "-conf", str(config)], {}, directory / "coredns.log"):
            yield NameServer(cluster, port)


def service(name: str, **spec: Any) -> dict[str, Any]:
    selector = {"app": "web"}
    ports = [{"name": "http", "port": 80}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": selector, "ports": ports, **spec},
    }


def test_services_are_resolved_to_addresses_and_ports(server: NameServer) -> None:
    created = server.cluster.apply(service("web"))[0]
    server.wait_for("web.default.svc", [created["spec"]["clusterIP"]])
    target = "web.default.svc.cluster.local."
    assert server.records("_http._tcp.web.default.svc", "SRV") == [f"0 100 80 {target}"]
    server.cluster.apply(service("elsewhere", type="ExternalName", externalName="example.com"))
    server.wait_for("elsewhere.default.svc", ["example.com."], "CNAME")
    server.cluster.delete("service/web")
    wait_until(lambda: server.ask("web.default.svc", "A").rcode() == dns.rcode.NXDOMAIN)


def test_headless_services_follow_their_pods(server: NameServer) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    spec = {"serviceName": "set", "replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    value = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec}
    server.cluster.apply([service("set", clusterIP="None"), value])
    server.cluster.wait_for("statefulset/web", "jsonpath={.status.readyReplicas}=2", timeout_s=60)
    addresses = [server.cluster.get(f"pod/web-{index}")["status"]["podIP"] for index in (0, 1)]
    server.wait_for("set.default.svc", sorted(addresses))
    server.wait_for("web-1.set.default.svc", [addresses[1]])
    server.wait_for(f"{addresses[0].replace('.', '-')}.default.pod", [addresses[0]])
    server.cluster.delete("pod/web-1")
    server.cluster.delete("statefulset/web")
    wait_until(lambda: server.ask("web-0.set.default.svc", "A").rcode() == dns.rcode.NXDOMAIN)
