"""kubectl apply --server-side, and field managers as kubectl shows them."""

from typing import Any

from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, DEPLOYMENT
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(kubectl: Kubectl, text: str, *words: str) -> str:
    return kubectl("apply", "--server-side", "-f", "-", *words, stdin=text)


def managers(objects: NamespaceObjects, target: str) -> dict[tuple[str, str], Any]:
    entries = objects.get(target)["metadata"]["managedFields"]
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}


def test_second_apply_changes_nothing(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 21)
    assert apply(kubectl, CONFIG_MAP) == "configmap/settings serverside-applied\n"
    first = objects.get("configmap/settings")
    assert apply(kubectl, CONFIG_MAP) == "configmap/settings serverside-applied\n"
    assert objects.get("configmap/settings") == first
    assert "managedFields" in kubectl.json("get", "configmap", "settings", "--show-managed-fields")["metadata"]
    assert managers(objects, "configmap/settings") == {("kubectl", "Apply"): {"f:data": {"f:color": {}, "f:size": {}}}}
    assert "managedFields" not in kubectl.json("get", "configmap", "settings")["metadata"]


def test_apply_removes_own_fields_and_keeps_fields_of_other_managers(
    kubectl: Kubectl, objects: NamespaceObjects
) -> None:
    apply(kubectl, CONFIG_MAP)
    kubectl("patch", "configmap", "settings", "-p", '{"data":{"other":"kept"}}')
    apply(kubectl, CONFIG_MAP.replace("  size: small\n", ""))
    assert objects.get("configmap/settings")["data"] == {"color": "red", "other": "kept"}


def test_conflict_is_reported_and_force_conflicts_takes_ownership(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 21)
    apply(kubectl, CONFIG_MAP, "--field-manager=first")
    changed = CONFIG_MAP.replace("small", "large")
    error = kubectl.fails("apply", "--server-side", "-f", "-", "--field-manager=second", stdin=changed)
    assert 'Apply failed with 1 conflict: conflict with "first": .data.size' in error
    assert "--force-conflicts" in error
    apply(kubectl, changed, "--field-manager=second", "--force-conflicts")
    assert objects.get("configmap/settings")["data"]["size"] == "large"
    assert managers(objects, "configmap/settings") == {
        ("first", "Apply"): {"f:data": {"f:color": {}}},
        ("second", "Apply"): {"f:data": {"f:color": {}, "f:size": {}}},
    }


def test_migration_from_client_side_apply(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 26)
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert ("kubectl-client-side-apply", "Update") in managers(objects, "deployment/web")
    scaled = DEPLOYMENT.replace("replicas: 2", "replicas: 3")
    assert scaled != DEPLOYMENT
    assert apply(kubectl, scaled) == "deployment.apps/web serverside-applied\n"
    deployment = objects.get("deployment/web")
    assert deployment["spec"]["replicas"] == 3
    assert '"replicas":3' in deployment["metadata"]["annotations"][LAST_APPLIED]
    without = "\n".join(line for line in scaled.splitlines() if "replicas" not in line)
    apply(kubectl, without)
    assert objects.get("deployment/web")["spec"]["replicas"] == 1, "the default is restored"


def test_a_dry_run_writes_nothing(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    assert apply(kubectl, CONFIG_MAP, "--dry-run=server") == "configmap/settings serverside-applied (server dry run)\n"
    assert "settings" not in objects.names("configmaps")


def test_diff_shows_the_change(kubectl: Kubectl) -> None:
    apply(kubectl, CONFIG_MAP)
    done = kubectl.run("diff", "--server-side", "-f", "-", stdin=CONFIG_MAP.replace("small", "large"))
    assert done.returncode == 1, done.stderr
    assert "+  size: large" in done.stdout


def test_scale_takes_ownership_of_replicas(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl.require_version(1, 21)
    apply(kubectl, DEPLOYMENT)
    kubectl("scale", "deployment", "web", "--replicas=5")
    entries = objects.get("deployment/web")["metadata"]["managedFields"]
    scale = next(entry for entry in entries if entry.get("subresource") == "scale")
    assert (scale["operation"], scale["fieldsV1"]) == ("Update", {"f:spec": {"f:replicas": {}}})
    error = kubectl.fails("apply", "--server-side", "-f", "-", stdin=DEPLOYMENT)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in error
