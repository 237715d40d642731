"""external-dns with its provider in memory: records of services, Ingresses and of its own kind come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.eventually import wait_until
from tests.operators.api import Api
from tests.operators.program import Operator, running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_port

pytestmark = NEEDS_TIME_TO_BUILD

EXTERNAL_DNS = GoModule("sigs.k8s.io/external-dns", "v0.20.0")
ZONE = "example.org"
HOSTNAME = "external-dns.alpha.kubernetes.io/hostname"
WAIT_S = 120


@dataclass(frozen=True, slots=True)
class Records:
    """The cluster, and the program, whose log has each change of a record."""

    cluster: Cluster
    operator: Operator

    def wait_for(self, change: str, name: str, type_: str, target: str) -> None:
        """Wait for a change of a record, such as CREATE."""
        wait_until(lambda: self._has(change, name, type_, target), timeout_s=WAIT_S, poll_s=0.2)

    def _has(self, change: str, name: str, type_: str, target: str) -> bool:
        lines = [line for line in self.operator.text().splitlines() if f"{change}: {name}.{ZONE} " in line]
        return any(f" IN {type_} " in line and target in line for line in lines)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    program = EXTERNAL_DNS.build_or_skip()
    definitions = EXTERNAL_DNS.files_or_skip("config/crd/standard/*.yaml")
    log = tmp_path_factory.mktemp("external-dns") / "external-dns.log"
    with Cluster(nodes=1) as cluster:
        cluster.apply(definitions)
        command = [str(program), f"--kubeconfig={cluster.kubeconfig}", f"--metrics-address=127.0.0.1:{free_port()}"]
        command += [f"--source={source}" for source in ("service", "ingress", "crd")]
        command += ["--provider=inmemory", f"--inmemory-zone={ZONE}", "--txt-owner-id=sampan"]
        command += ["--policy=sync", "--interval=1s", "--min-event-sync-interval=100ms", "--events"]
        with running_operator(command, {}, log) as operator:
            yield Records(cluster, operator)


def endpoint(name: str, *targets: str) -> dict[str, Any]:
    record = {"dnsName": f"{name}.{ZONE}", "recordType": "A", "recordTTL": 60, "targets": list(targets)}
    return {
        "apiVersion": "externaldns.k8s.io/v1alpha1",
        "kind": "DNSEndpoint",
        "metadata": {"name": name},
        "spec": {"endpoints": [record]},
    }


def test_record_of_a_load_balancer_follows_its_address(records: Records) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "annotations": {HOSTNAME: f"web.{ZONE}"}},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.org/none", "ports": [{"port": 80}]},
    }
    records.cluster.apply(service)
    api, path = Api(records.cluster), "/api/v1/namespaces/default/services/web/status"
    api.merge(path, {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
    records.wait_for("CREATE", "web", "A", "192.0.2.1")
    api.merge(path, {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}})
    records.wait_for("UPDATE (new)", "web", "A", "192.0.2.2")
    records.cluster.delete("service/web")
    records.wait_for("DELETE", "web", "A", "192.0.2.2")


def test_host_of_an_ingress_gets_the_name_of_its_load_balancer(records: Records) -> None:
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "shop"},
        "spec": {
            "ingressClassName": "none",
            "defaultBackend": {"service": {"name": "shop", "port": {"number": 80}}},
            "rules": [{"host": f"shop.{ZONE}"}],
        },
    }
    records.cluster.apply(ingress)
    status = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}}
    Api(records.cluster).merge("/apis/networking.k8s.io/v1/namespaces/default/ingresses/shop/status", status)
    records.wait_for("CREATE", "shop", "CNAME", "lb.example.com")


def test_records_of_its_own_kind_are_reported_in_the_status(records: Records) -> None:
    records.cluster.apply(endpoint("direct", "192.0.2.3"))
    records.wait_for("CREATE", "direct", "A", "192.0.2.3")
    records.cluster.wait_for(
        "dnsendpoint/direct", lambda value: value.get("status", {}).get("observedGeneration") == 1, timeout_s=WAIT_S
    )
    records.cluster.apply(endpoint("direct", "192.0.2.4"))
    records.wait_for("UPDATE (new)", "direct", "A", "192.0.2.4")
    records.cluster.delete("dnsendpoint/direct")
    records.wait_for("DELETE", "direct", "A", "192.0.2.4")
