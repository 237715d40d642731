"""cert-manager with its controller, webhook and CA injector: issuers, certificates, the Ingress shim, injected CAs."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from sampan.testing import Cluster
from tests.operators.api import Api, has_condition
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.operators.programs.webhook_services import NEEDS_ADDRESS, publish_service
from tests.ports import free_ports

pytestmark = [NEEDS_TIME_TO_BUILD, NEEDS_ADDRESS]

CERT_MANAGER = GoModule("github.com/cert-manager/cert-manager", "v1.11.5")
"""The last version whose programs belong to the module with the API; later ones are modules that are not published."""
NAMESPACE = "cert-manager"
SERVICE = "cert-manager-webhook"
CA_SECRET = "cert-manager-webhook-ca"
CERTIFICATES = "/apis/cert-manager.io/v1/namespaces/default/certificates"
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    controller, webhook, injector = (
        CERT_MANAGER.build_or_skip(f"./cmd/{name}", f"cert-manager-{name}")
        for name in ("controller", "webhook", "cainjector")
    )
    definitions = [read_template(path) for path in CERT_MANAGER.files_or_skip("deploy/crds/crd-*.yaml")]
    directory = tmp_path_factory.mktemp("cert-manager")
    webhook_port, health_port, metrics_port = free_ports(3)
    names = [SERVICE, f"{SERVICE}.{NAMESPACE}", f"{SERVICE}.{NAMESPACE}.svc"]
    commands = {
        "webhook": [
            str(webhook),
            f"--secure-port={webhook_port}",
            f"--healthz-port={health_port}",
            f"--dynamic-serving-ca-secret-namespace={NAMESPACE}",
            f"--dynamic-serving-ca-secret-name={CA_SECRET}",
            f"--dynamic-serving-dns-names={','.join(names)}",
        ],
        "cainjector": [str(injector), f"--leader-election-namespace={NAMESPACE}"],
        "controller": [
            str(controller),
            f"--cluster-resource-namespace={NAMESPACE}",
            f"--leader-election-namespace={NAMESPACE}",
            f"--metrics-listen-address=127.0.0.1:{metrics_port}",
        ],
    }
    with Cluster() as cluster, ExitStack() as stack:
        cluster.apply([*definitions, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        publish_service(cluster, NAMESPACE, SERVICE, webhook_port)
        cluster.apply([webhook_configuration("Mutating", "/mutate"), webhook_configuration("Validating", "/validate")])
        environment = {"KUBECONFIG": str(cluster.kubeconfig)}
        for name, command in commands.items():
            command.append(f"--kubeconfig={cluster.kubeconfig}")
            stack.enter_context(running_operator(command, environment, directory / f"{name}.log"))
        for kind in ("mutating", "validating"):
            cluster.wait_for(f"{kind}webhookconfiguration/{SERVICE}", has_ca, timeout_s=WAIT_S)
        yield cluster


def read_template(path: Path) -> dict[str, Any]:
    """Read a manifest in which only labels are templates."""
    value = yaml.safe_load(re.sub("{{[^}]*}}", NAMESPACE, path.read_text()))
    return dict(value)


def webhook_configuration(prefix: str, path: str) -> dict[str, Any]:
    rule = {
        "apiGroups": ["cert-manager.io", "acme.cert-manager.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["*/*"],
    }
    webhook = {
        "name": "webhook.cert-manager.io",
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": [rule],
        "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": path}},
    }
    annotations = {"cert-manager.io/inject-ca-from-secret": f"{NAMESPACE}/{CA_SECRET}"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{prefix}WebhookConfiguration",
        "metadata": {"name": SERVICE, "annotations": annotations},
        "webhooks": [webhook],
    }


def has_ca(configuration: dict[str, Any]) -> bool:
    return all(webhook["clientConfig"].get("caBundle") for webhook in configuration["webhooks"])


def certificate(name: str, issuer: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": name},
        "spec": {"secretName": name, "issuerRef": {"kind": "ClusterIssuer", "name": issuer}, **spec},
    }


def cluster_issuer(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": name}, "spec": spec}


def wait_ready(cluster: Cluster, target: str, namespace: str = "default") -> dict[str, Any]:
    return dict(
        cluster.wait_for(target, lambda value: has_condition(value, "Ready"), namespace=namespace, timeout_s=WAIT_S)[0]
    )


def read_leaf(cluster: Cluster, secret: str) -> x509.Certificate:
    data = cluster.get(f"secret/{secret}")["data"]
    return x509.load_pem_x509_certificate(base64.b64decode(data["tls.crt"]))


@pytest.fixture(scope="module")
def issuer(cluster: Cluster) -> str:
    """A cluster issuer with a CA that cert-manager has issued itself."""
    api = Api(cluster)
    path = "/apis/cert-manager.io/v1/clusterissuers"
    api.create_once_accepted(path, cluster_issuer("root", {"selfSigned": {}}))
    wait_ready(cluster, "clusterissuer/root")
    key = {"algorithm": "ECDSA", "size": 256}
    cluster.apply(certificate("ca", "root", isCA=True, commonName="the CA", privateKey=key), namespace=NAMESPACE)
    wait_ready(cluster, "certificate/ca", NAMESPACE)
    cluster.apply(cluster_issuer("ca", {"ca": {"secretName": "ca"}}))
    wait_ready(cluster, "clusterissuer/ca")
    return "ca"


def test_certificate_is_issued_and_issued_again_if_its_secret_is_lost(cluster: Cluster, issuer: str) -> None:
    cluster.apply(certificate("web", issuer, dnsNames=["web.example.com"], usages=["server auth"]))
    cluster.wait_for("certificate/web", partial(is_issued, 0), timeout_s=WAIT_S)
    first = read_leaf(cluster, "web")
    assert first.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "the CA"
    names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["web.example.com"]
    requests = cluster.list("certificaterequests")
    assert {request["spec"]["username"] for request in requests} == {"kubernetes-admin"}, "set by the webhook"
    revision = cluster.get("certificate/web")["status"]["revision"]
    cluster.delete("secret/web")
    cluster.wait_for("certificate/web", partial(is_issued, revision), timeout_s=WAIT_S)
    assert read_leaf(cluster, "web").serial_number != first.serial_number


def is_issued(revision: int, value: dict[str, Any]) -> bool:
    """Whether a certificate has a later revision, and its controllers have finished with it, which may issue it twice
    at first."""
    is_later = value.get("status", {}).get("revision", 0) > revision
    return is_later and has_condition(value, "Ready") and not has_condition(value, "Issuing")


def test_webhook_refuses_an_invalid_certificate(cluster: Cluster, issuer: str) -> None:
    reply = Api(cluster).send("POST", CERTIFICATES, certificate("bad", issuer, dnsNames=["a.b"], duration="30m"))
    assert (reply.code, reply.body["reason"]) == (406, "NotAcceptable")
    assert reply.message.startswith('admission webhook "webhook.cert-manager.io" denied the request: spec.duration: ')


def test_certificate_of_an_annotated_ingress_is_issued(cluster: Cluster, issuer: str) -> None:
    backend = {"service": {"name": "shop", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "shop", "annotations": {"cert-manager.io/cluster-issuer": issuer}},
        "spec": {
            "tls": [{"hosts": ["shop.example.com"], "secretName": "shop"}],
            "rules": [{"host": "shop.example.com", "http": {"paths": [path]}}],
        },
    }
    cluster.apply(ingress)
    cluster.wait_for("certificate/shop", "create", timeout_s=WAIT_S)
    owner = wait_ready(cluster, "certificate/shop")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Ingress", "shop")
    assert cluster.get("secret/shop")["type"] == "kubernetes.io/tls"


def test_ca_of_a_certificate_is_injected(cluster: Cluster, issuer: str) -> None:
    cluster.apply(certificate("hooks", issuer, dnsNames=["hooks.example.com"]))
    wait_ready(cluster, "certificate/hooks")
    configuration = webhook_configuration("Validating", "/")
    configuration["metadata"] = {"name": "hooks", "annotations": {"cert-manager.io/inject-ca-from": "default/hooks"}}
    configuration["webhooks"][0]["rules"][0]["apiGroups"] = ["nothing.example.com"]
    cluster.apply(configuration)
    injected = cluster.wait_for("validatingwebhookconfiguration/hooks", has_ca, timeout_s=WAIT_S)[0]
    assert injected["webhooks"][0]["clientConfig"]["caBundle"] == cluster.get("secret/hooks")["data"]["ca.crt"]
