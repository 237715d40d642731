"""The core of Cluster API with providers that are only kinds: a topology becomes objects by server-side apply, follows
changes, is read in its older version, and is deleted from the leaves to the root."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.testing import Cluster
from tests.operators.api import Api
from tests.operators.program import running_operator, write_webhook_certificates
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.operators.programs.webhook_services import NEEDS_ADDRESS, publish_service, read_webhooks
from tests.ports import free_ports

pytestmark = [NEEDS_TIME_TO_BUILD, NEEDS_ADDRESS]

CLUSTER_API = GoModule("sigs.k8s.io/cluster-api", "v1.13.0")
SERVICE = "webhook-service"
NAMESPACE = "system"
CLUSTERS = "/apis/cluster.x-k8s.io/{}/namespaces/default/clusters"
PROVIDER = "providers.example.com"
KINDS = [f"{name}{suffix}" for name in ("Site", "ControlPlane", "Host", "Boot") for suffix in ("", "Template")]
"""The kinds of the providers: for clusters, control planes and machines, and for the bootstrap data of machines."""
ENDPOINT = {"host": "10.0.0.1", "port": 6443}
VERSION = "v1.36.4"
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = CLUSTER_API.build_or_skip()
    definitions = CLUSTER_API.files_or_skip("config/crd/bases/*.yaml")
    webhooks = CLUSTER_API.files_or_skip("config/webhook/manifests.yaml")
    directory = tmp_path_factory.mktemp("cluster-api")
    ca = write_webhook_certificates(directory, f"{SERVICE}.{NAMESPACE}.svc")
    webhook_port, health_port, diagnostics_port = free_ports(3)
    command = [str(program), f"--webhook-port={webhook_port}", f"--webhook-cert-dir={directory}"]
    command += [f"--health-addr=127.0.0.1:{health_port}", "--feature-gates=ClusterTopology=true"]
    command += [f"--diagnostics-address=127.0.0.1:{diagnostics_port}", "--insecure-diagnostics"]
    environment = {"KUBECONFIG": "", "POD_NAMESPACE": NAMESPACE}
    with Cluster() as cluster:
        environment["KUBECONFIG"] = str(cluster.kubeconfig)
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        publish_service(cluster, NAMESPACE, SERVICE, webhook_port)
        cluster.apply(
            [with_conversion(path, ca) for path in definitions] + [provider_definition(kind) for kind in KINDS]
        )
        with running_operator(command, environment, directory / "cluster-api.log"):
            cluster.apply(list(read_webhooks(webhooks, ca)))
            create_class(cluster)
            yield cluster


def with_conversion(path: Path, ca: bytes) -> dict[str, Any]:
    """Return a definition with the webhook that converts between its versions, as the project's patch adds it."""
    definition = dict(yaml.safe_load(path.read_text()))
    service = {"namespace": NAMESPACE, "name": SERVICE, "path": "/convert"}
    client_config = {"service": service, "caBundle": base64.b64encode(ca).decode()}
    webhook = {"conversionReviewVersions": ["v1", "v1beta1"], "clientConfig": client_config}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return definition


def provider_definition(kind: str) -> dict[str, Any]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{PROVIDER}", "labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
        "spec": {
            "group": PROVIDER,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }


def provider_object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{PROVIDER}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def template_reference(kind: str) -> dict[str, Any]:
    reference = {"apiVersion": f"{PROVIDER}/v1", "kind": f"{kind}Template", "name": "small"}
    return {"templateRef": reference}


def create_class(cluster: Cluster) -> None:
    cluster.apply(
        [
            provider_object(f"{kind}Template", "small", {"template": {"spec": {"size": "small"}}})
            for kind in ("Site", "ControlPlane", "Host", "Boot")
        ]
    )
    variable = {"name": "size", "required": True, "schema": {"openAPIV3Schema": {"type": "string", "enum": ["S", "L"]}}}
    selector = {
        "apiVersion": f"{PROVIDER}/v1",
        "kind": "SiteTemplate",
        "matchResources": {"infrastructureCluster": True},
    }
    patch = {"op": "replace", "path": "/spec/template/spec/size", "valueFrom": {"variable": "size"}}
    value = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "small"},
        "spec": {
            "infrastructure": template_reference("Site"),
            "controlPlane": template_reference("ControlPlane"),
            "workers": {
                "machineDeployments": [
                    {
                        "class": "worker",
                        "bootstrap": template_reference("Boot"),
                        "infrastructure": template_reference("Host"),
                    }
                ]
            },
            "variables": [variable],
            "patches": [{"name": "size", "definitions": [{"selector": selector, "jsonPatches": [patch]}]}],
        },
    }
    Api(cluster).create_once_accepted("/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusterclasses", value)
    cluster.wait_for("clusterclass/small", is_reconciled, timeout_s=WAIT_S)


def is_reconciled(value: dict[str, Any]) -> bool:
    conditions = value.get("status", {}).get("conditions") or ()
    return any((row["type"], row["status"]) == ("VariablesReady", "True") for row in conditions)


def workload_cluster(name: str, *, replicas: int = 2, size: str = "S", class_name: str = "small") -> dict[str, Any]:
    deployment = {"class": "worker", "name": "workers", "replicas": replicas}
    topology = {
        "classRef": {"name": class_name},
        "version": VERSION,
        "workers": {"machineDeployments": [deployment]},
        "variables": [{"name": "size", "value": size}],
    }
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"topology": topology},
    }


def only(cluster: Cluster, kind: str) -> dict[str, Any]:
    values = cluster.list(kind, labels="cluster.x-k8s.io/cluster-name=prod")
    assert len(values) == 1, values
    return dict(values[0])


def name_of(value: dict[str, Any]) -> str:
    return f"{value['kind'].lower()}/{value['metadata']['name']}"


def report(cluster: Cluster, value: dict[str, Any], status: dict[str, Any], spec: dict[str, Any] | None = None) -> None:
    """Write what the provider of an object would."""
    api, name = Api(cluster), value["metadata"]["name"]
    path = f"/apis/{PROVIDER}/v1/namespaces/default/{value['kind'].lower()}s/{name}"
    if spec is not None:
        api.merge(path, {"spec": spec})
    api.merge(f"{path}/status", {"status": status})


def is_owned_by_a_cluster(value: dict[str, Any]) -> bool:
    return "Cluster" in [reference["kind"] for reference in value["metadata"].get("ownerReferences", ())]


def test_life_of_a_cluster_with_a_topology(cluster: Cluster) -> None:
    api = Api(cluster)
    api.create(CLUSTERS.format("v1beta2"), workload_cluster("prod"))
    cluster.wait_for(
        "cluster/prod", lambda value: value["spec"].get("controlPlaneRef") and value["spec"].get("infrastructureRef")
    )
    site = only(cluster, "sites")
    assert site["spec"]["size"] == "S"
    cluster.wait_for(name_of(site), is_owned_by_a_cluster, timeout_s=WAIT_S)
    report(cluster, site, {"initialization": {"provisioned": True}}, {"controlPlaneEndpoint": ENDPOINT})
    status = {"version": VERSION, "initialization": {"controlPlaneInitialized": True}}
    report(cluster, only(cluster, "controlplanes"), status)
    endpoint = cluster.wait_for("cluster/prod", "jsonpath={.status.phase}=Provisioned", timeout_s=WAIT_S)[0]
    assert endpoint["spec"]["controlPlaneEndpoint"] == ENDPOINT
    wait_for_machines(cluster, 2)
    deployment = only(cluster, "machinedeployments")
    assert deployment["metadata"]["managedFields"][0]["manager"] == "capi-topology"
    assert len(cluster.list("hosts")) == len(cluster.list("boots")) == 2
    cluster.apply(workload_cluster("prod", replicas=3, size="L"))
    cluster.wait_for(name_of(site), "jsonpath={.spec.size}=L", timeout_s=WAIT_S)
    cluster.wait_for(name_of(deployment), "jsonpath={.spec.replicas}=3", timeout_s=WAIT_S)
    wait_for_machines(cluster, 3)
    older = api.get(f"{CLUSTERS.format('v1beta1')}/prod")
    assert (older["apiVersion"], older["spec"]["topology"]["class"]) == ("cluster.x-k8s.io/v1beta1", "small")
    cluster.delete("cluster/prod")
    cluster.wait_for("cluster/prod", "delete", timeout_s=WAIT_S)
    for kind in ("machines", "machinesets", "machinedeployments", "hosts", "boots", "sites", "controlplanes"):
        assert cluster.list(kind) == [], kind


def wait_for_machines(cluster: Cluster, count: int) -> None:
    path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines"

    def are_cloned(page: dict[str, Any]) -> bool:
        machines = page["items"]
        return len(machines) == count and all(machine["spec"].get("infrastructureRef") for machine in machines)

    Api(cluster).wait_for(path, are_cloned)


def test_webhooks_and_rules_refuse_invalid_clusters(cluster: Cluster) -> None:
    api, path = Api(cluster), CLUSTERS.format("v1beta2")
    reply = api.send("POST", path, workload_cluster("odd", size="XL"))
    assert (reply.code, reply.message.partition(":")[0]) == (
        422,
        'admission webhook "default.cluster.cluster.x-k8s.io" denied the request',
    )
    empty = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "empty"}, "spec": {}}
    assert api.send("POST", path, empty).code == 422
