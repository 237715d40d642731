"""kubectl api-versions, api-resources, version, cluster-info, explain, and raw paths."""

import pytest

from sampan.api.kubernetes_version import GIT_VERSION, MAJOR, MINOR
from tests.e2e.kubectl.command import Kubectl


def test_api_versions(kubectl: Kubectl) -> None:
    versions = kubectl("api-versions").split()
    assert versions == sorted(versions)
    assert {"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1", "storage.k8s.io/v1"} <= set(versions)


def test_api_resources(kubectl: Kubectl) -> None:
    head, *rows = kubectl.table("api-resources")
    assert head[0] == "NAME"
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["namespaces", "ns", "v1", "false", "Namespace"] in rows
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows


def test_api_resources_of_a_group(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "--api-group=apps", "-o", "name").split()
    assert sorted(names) == [
        "controllerrevisions.apps",
        "daemonsets.apps",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
    ]


def test_api_resources_without_a_namespace(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "--namespaced=false", "-o", "name").split()
    assert {"nodes", "namespaces", "persistentvolumes", "clusterroles.rbac.authorization.k8s.io"} <= set(names)
    assert not {"pods", "configmaps"} & set(names)


def test_api_resources_by_verb(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "--verbs=list,deletecollection", "-o", "name").split()
    assert "pods" in names
    assert "namespaces" not in names
    assert "bindings" not in names


def test_version(kubectl: Kubectl) -> None:
    server = kubectl.json("version")["serverVersion"]
    assert (server["major"], server["minor"]) == (MAJOR, MINOR)
    assert server["gitVersion"] == GIT_VERSION


def test_cluster_info(kubectl: Kubectl) -> None:
    assert "is running at" in kubectl("cluster-info")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_endpoints(kubectl: Kubectl, path: str) -> None:
    assert kubectl("get", "--raw", path) == "ok"


def test_verbose_readyz(kubectl: Kubectl) -> None:
    lines = kubectl("get", "--raw", "/readyz?verbose").splitlines()
    assert "[+]ping ok" in lines
    assert "[+]etcd ok" in lines
    assert lines[-1] == "readyz check passed"


def test_metrics(kubectl: Kubectl) -> None:
    assert "# TYPE apiserver_request_total counter" in kubectl("get", "--raw", "/metrics")


def test_an_unknown_path(kubectl: Kubectl) -> None:
    assert kubectl.fails("get", "--raw", "/nowhere") == (
        "Error from server (NotFound): the server could not find the requested resource\n"
    )


class TestExplain:
    def test_a_kind(self, kubectl: Kubectl) -> None:
        text = kubectl("explain", "pods")
        assert text.splitlines()[0].split() == ["KIND:", "Pod"]
        assert "apiVersion\t<string>" in text
        assert "spec\t<" in text

    def test_a_field(self, kubectl: Kubectl) -> None:
        text = kubectl("explain", "pod.spec.containers.image")
        assert "image <string>" in text

    def test_a_kind_of_a_group(self, kubectl: Kubectl) -> None:
        text = kubectl("explain", "deployment.spec.strategy")
        assert "Deployment" in text
        assert "rollingUpdate\t<" in text

    def test_recursive(self, kubectl: Kubectl) -> None:
        lines = [line.strip() for line in kubectl("explain", "deployment.spec", "--recursive").splitlines()]
        for field in ("replicas\t<integer>", "matchLabels\t<map[string]string>", "tolerationSeconds\t<integer>"):
            assert field in lines

    def test_an_unknown_kind(self, kubectl: Kubectl) -> None:
        assert 'the server doesn\'t have a resource type "nonsense"' in kubectl.fails("explain", "nonsense")

    def test_an_unknown_field(self, kubectl: Kubectl) -> None:
        assert 'field "nonsense" does not exist' in kubectl.fails("explain", "pod.nonsense")
