"""kubectl apply and diff."""

import json

import pytest

from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, DEPLOYMENT, POD
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(kubectl: Kubectl, text: str, *words: str) -> str:
    return kubectl("apply", "-f", "-", *words, stdin=text)


def test_apply_reports_created_unchanged_and_configured(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    assert apply(kubectl, CONFIG_MAP) == "configmap/settings created\n"
    assert apply(kubectl, CONFIG_MAP) == "configmap/settings unchanged\n"
    assert apply(kubectl, CONFIG_MAP.replace("small", "large")) == "configmap/settings configured\n"
    assert objects.get("configmap/settings")["data"] == {"color": "red", "size": "large"}


def test_apply_removes_own_fields_and_keeps_fields_of_other_clients(
    kubectl: Kubectl, objects: NamespaceObjects
) -> None:
    apply(kubectl, CONFIG_MAP)
    objects.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"other": "kept"}}
    )
    apply(kubectl, CONFIG_MAP.replace("  size: small\n", ""))
    assert objects.get("configmap/settings")["data"] == {"color": "red", "other": "kept"}


def test_apply_writes_the_last_applied_annotation(
    kubectl: Kubectl, objects: NamespaceObjects, sampan_namespace: str
) -> None:
    apply(kubectl, CONFIG_MAP)
    note = json.loads(objects.get("configmap/settings")["metadata"]["annotations"][LAST_APPLIED])
    assert note["data"] == {"color": "red", "size": "small"}
    assert note["metadata"] == {"annotations": {}, "name": "settings", "namespace": sampan_namespace}


@pytest.mark.parametrize("text", [POD, DEPLOYMENT], ids=["pod", "deployment"])
def test_server_defaults_do_not_count_as_changes(kubectl: Kubectl, text: str) -> None:
    assert apply(kubectl, text).endswith("/web created\n")
    assert apply(kubectl, text).endswith("/web unchanged\n")


def test_container_lists_are_merged_by_name(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    apply(kubectl, DEPLOYMENT)
    more = DEPLOYMENT.replace("containers:", "containers:\n      - {name: side, image: busybox}")
    assert apply(kubectl, more) == "deployment.apps/web configured\n"
    assert container_names(objects) == {"main", "side"}
    assert apply(kubectl, DEPLOYMENT) == "deployment.apps/web configured\n"
    assert container_names(objects) == {"main"}


def container_names(objects: NamespaceObjects) -> set[str]:
    containers = objects.get("deployment/web")["spec"]["template"]["spec"]["containers"]
    return {container["name"] for container in containers}


def test_apply_to_an_object_without_the_last_applied_annotation(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"own": "1"}})
    done = kubectl.run("apply", "-f", "-", stdin=CONFIG_MAP)
    assert done.stdout == "configmap/settings configured\n"
    assert "is missing the kubectl.kubernetes.io/last-applied-configuration annotation" in done.stderr
    assert set(objects.get("configmap/settings")["data"]) == {"own", "color", "size"}


def test_several_objects(kubectl: Kubectl) -> None:
    both = f"{CONFIG_MAP}---\n{POD}"
    assert apply(kubectl, both).splitlines() == ["configmap/settings created", "pod/web created"]
    assert apply(kubectl, both).splitlines() == ["configmap/settings unchanged", "pod/web unchanged"]


def test_pruning(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 25)  # older versions use API versions that were removed
    labelled = CONFIG_MAP.replace("name: settings", "name: settings\n  labels: {part: of-it}")
    apply(kubectl, labelled)
    done = kubectl("apply", "-f", "-", "--prune", "-l", "part=of-it", stdin=labelled.replace("settings", "others"))
    assert sorted(done.splitlines()) == ["configmap/others created", "configmap/settings pruned"]
    assert objects.names("configmaps", labels="part=of-it") == {"others"}


def test_dry_run(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    apply(kubectl, CONFIG_MAP)
    changed = CONFIG_MAP.replace("small", "large")
    assert apply(kubectl, changed, "--dry-run=server") == "configmap/settings configured (server dry run)\n"
    assert objects.get("configmap/settings")["data"]["size"] == "small"


def test_change_of_an_immutable_field_is_rejected(kubectl: Kubectl) -> None:
    apply(kubectl, POD)
    error = kubectl.fails("apply", "-f", "-", stdin=POD.replace("containerPort: 80", "containerPort: 81"))
    assert error.startswith('The Pod "web" is invalid: spec: Forbidden: pod updates may not change fields other than ')


class TestDiff:
    def test_no_difference(self, kubectl: Kubectl) -> None:
        apply(kubectl, CONFIG_MAP)
        assert kubectl("diff", "-f", "-", stdin=CONFIG_MAP) == ""

    def test_changed_field_is_shown(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        apply(kubectl, CONFIG_MAP)
        done = kubectl.run("diff", "-f", "-", stdin=CONFIG_MAP.replace("small", "large"))
        assert done.returncode == 1
        changed = [line for line in done.stdout.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")]
        assert changed == ["-  size: small", "+  size: large"]
        assert objects.get("configmap/settings")["data"]["size"] == "small"

    def test_new_object_is_shown(self, kubectl: Kubectl) -> None:
        done = kubectl.run("diff", "-f", "-", stdin=CONFIG_MAP)
        assert done.returncode == 1
        assert "+  name: settings" in done.stdout.splitlines()
