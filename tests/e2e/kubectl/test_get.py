"""kubectl get with its output formats, selectors and errors."""

import json
import re

import pytest
import yaml

from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, POD, SERVICE
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

AGE = re.compile(r"\d+s")


@pytest.fixture
def pods(kubectl: Kubectl, objects: NamespaceObjects) -> Kubectl:
    """kubectl with the pods web and db."""
    objects.apply([POD, POD.replace("name: web", "name: db").replace("app: web", "app: db")])
    return kubectl


def names(kubectl: Kubectl, *words: str) -> list[str]:
    return kubectl("get", "pods", "-o", "name", *words).split()


def test_table(pods: Kubectl) -> None:
    head, *rows = pods.table("get", "pods")
    assert head == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in rows] == [["db", "0/1", "Pending", "0"], ["web", "0/1", "Pending", "0"]]
    assert all(AGE.fullmatch(row[4]) for row in rows)


def test_wide_table(pods: Kubectl) -> None:
    head, row = pods.table("get", "pod", "web", "-o", "wide")
    assert head[4:] == ["AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert row[5:] == ["<none>"] * 4


def test_without_headers(pods: Kubectl) -> None:
    (row,) = pods.table("get", "pod", "web", "--no-headers")
    assert row[0] == "web"


def test_label_columns(pods: Kubectl) -> None:
    assert pods.table("get", "pod", "web", "--show-labels")[1][-1] == "app=web,tier=front"
    head, row = pods.table("get", "pod", "web", "-L", "app,tier,none")
    assert head[-3:] == ["APP", "TIER", "NONE"]
    assert row[-2:] == ["web", "front"]


def test_yaml(pods: Kubectl) -> None:
    text = pods("get", "pod", "web", "-o", "yaml")
    assert text.startswith("apiVersion: v1\nkind: Pod\nmetadata:\n")
    assert "managedFields" not in text or pods.version < (1, 21)
    pod = yaml.safe_load(text)
    assert pod["spec"]["containers"][0]["image"] == "nginx:1.27"
    assert (pod["status"]["phase"], pod["status"]["qosClass"]) == ("Pending", "BestEffort")


def test_json(pods: Kubectl) -> None:
    listed = json.loads(pods("get", "pods", "-o", "json"))
    assert listed["kind"] == "List"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["db", "web"]


def test_jsonpath(pods: Kubectl) -> None:
    assert pods.jsonpath("get", "pod", "web", "{.metadata.name}: {.status.phase}") == "web: Pending"
    assert pods.jsonpath("get", "pods", '{range .items[*]}{.metadata.labels.app}{" "}{end}') == "db web "


def test_custom_columns(pods: Kubectl) -> None:
    columns = "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image,NODE:.spec.nodeName"
    assert pods.table("get", "pods", "-o", columns) == [
        ["NAME", "IMAGE", "NODE"],
        ["db", "nginx:1.27", "<none>"],
        ["web", "nginx:1.27", "<none>"],
    ]


def test_go_template(pods: Kubectl) -> None:
    assert pods("get", "pod", "web", "-o", "go-template={{.metadata.name}} {{len .spec.containers}}") == "web 1"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", ["pod/web"]),
        ("app!=web", ["pod/db"]),
        ("app in (web,db),tier=front", ["pod/db", "pod/web"]),
        ("app notin (db)", ["pod/web"]),
        ("!app", []),
    ],
)
def test_label_selector(pods: Kubectl, selector: str, expected: list[str]) -> None:
    assert names(pods, "-l", selector) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=db", ["pod/db"]),
        ("metadata.name!=db", ["pod/web"]),
        ("status.phase=Pending", ["pod/db", "pod/web"]),
        ("status.phase=Running", []),
        ("spec.nodeName=", ["pod/db", "pod/web"]),
    ],
)
def test_field_selector(pods: Kubectl, selector: str, expected: list[str]) -> None:
    assert names(pods, "--field-selector", selector) == expected


def test_sort_by(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    """The order is that of the annotation, not of names."""
    for name, order in (("a", 3), ("b", 1), ("c", 2)):
        objects.apply(CONFIG_MAP.replace("name: settings", f"name: {name}\n  annotations: {{order: '{order}'}}"))
    words = ("--sort-by=.metadata.annotations.order", "--field-selector=metadata.name!=kube-root-ca.crt")
    rows = kubectl.table("get", "configmaps", *words, "--no-headers")
    assert [row[0] for row in rows] == ["b", "c", "a"]


def test_several_kinds(pods: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(CONFIG_MAP)
    names = pods("get", "pods,configmaps", "-o", "name").split()
    assert names == ["pod/db", "pod/web", "configmap/kube-root-ca.crt", "configmap/settings"]


def test_by_type_and_name(pods: Kubectl) -> None:
    assert pods("get", "pod/web", "po/db", "-o", "name").split() == ["pod/web", "pod/db"]


def test_chunk_size(pods: Kubectl) -> None:
    assert names(pods, "--chunk-size=1") == ["pod/db", "pod/web"]


def test_all_namespaces(pods: Kubectl, sampan_namespace: str) -> None:
    head, *rows = pods.table("get", "pods", "-A")
    assert head[:2] == ["NAMESPACE", "NAME"]
    assert [sampan_namespace, "web"] in [row[:2] for row in rows]


def test_category_all(pods: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(SERVICE)
    assert pods("get", "all", "-o", "name").split() == ["pod/db", "pod/web", "service/web"]


def test_namespaces(kubectl: Kubectl, sampan_namespace: str) -> None:
    head, *rows = kubectl.table("get", "namespaces")
    assert head == ["NAME", "STATUS", "AGE"]
    assert {"default", "kube-system", "kube-public", "kube-node-lease", sampan_namespace} <= {row[0] for row in rows}
    assert [sampan_namespace, "Active"] in [row[:2] for row in rows]


def test_kubernetes_service(kubectl: Kubectl) -> None:
    head, row = kubectl.table("get", "service", "kubernetes", "-n", "default")
    assert head == ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"]
    assert row[:5] == ["kubernetes", "ClusterIP", "10.96.0.1", "<none>", "443/TCP"]


def test_tables_of_configmaps_secrets_and_service_accounts(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1", "b": "2"}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "data": {"a": "MQ=="}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}},
        ]
    )
    rows = kubectl.table("get", "configmap/settings", "secret/password", "serviceaccount/robot", "--no-headers")
    config_map, secret, account = [row for row in rows if row != [""]]
    assert config_map[:2] == ["configmap/settings", "2"]
    assert secret[:3] == ["secret/password", "Opaque", "1"]
    assert account[0] == "serviceaccount/robot"


def test_watch(pods: Kubectl, objects: NamespaceObjects) -> None:
    with pods.running("get", "pods", "-w", "--no-headers") as watch:
        assert watch.stdout is not None
        assert [watch.stdout.readline().split()[0] for _ in range(2)] == ["db", "web"]
        objects.apply(POD.replace("name: web", "name: late"))
        assert watch.stdout.readline().split()[:3] == ["late", "0/1", "Pending"]
        pods("delete", "pod", "late")
        assert watch.stdout.readline().split()[0] == "late"


def test_watch_with_output_name(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    with kubectl.running("get", "configmaps", "-w", "-o", "name") as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "configmap/kube-root-ca.crt\n"
        objects.apply(CONFIG_MAP.replace("settings", "late"))
        assert watch.stdout.readline() == "configmap/late\n"


class TestErrors:
    def test_no_resources_found(self, kubectl: Kubectl, sampan_namespace: str) -> None:
        done = kubectl.run("get", "pods")
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"No resources found in {sampan_namespace} namespace.\n"

    def test_missing_object(self, kubectl: Kubectl) -> None:
        assert kubectl.fails("get", "pod", "nobody") == 'Error from server (NotFound): pods "nobody" not found\n'

    def test_a_missing_object_is_no_error_with_ignore_not_found(self, kubectl: Kubectl) -> None:
        assert kubectl("get", "pod", "nobody", "--ignore-not-found") == ""

    def test_unknown_resource_type(self, kubectl: Kubectl) -> None:
        assert kubectl.fails("get", "nonsense") == 'error: the server doesn\'t have a resource type "nonsense"\n'

    def test_unsupported_field_selector(self, kubectl: Kubectl) -> None:
        assert kubectl.fails("get", "pods", "--field-selector", "color=red") == (
            'Error from server (BadRequest): Unable to find "/v1, Resource=pods" that match label selector "", '
            'field selector "color=red": field label not supported: color\n'
        )

    def test_malformed_label_selector(self, kubectl: Kubectl) -> None:
        assert kubectl.fails("get", "pods", "-l", "app in (web") == (
            'Error from server (BadRequest): Unable to find "/v1, Resource=pods" that match label selector '
            "\"app in (web\", field selector \"\": unable to parse requirement: found '', expected: ',' or ')'\n"
        )
