"""kubectl delete."""

import pytest

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, DEPLOYMENT, POD, SERVICE
from tests.e2e.kubectl.namespace_objects import NamespaceObjects


@pytest.fixture
def maps(kubectl: Kubectl, objects: NamespaceObjects) -> Kubectl:
    """kubectl with the ConfigMaps a, b and c; a and b have the same label."""
    for name, group in (("a", "one"), ("b", "one"), ("c", "two")):
        objects.apply(CONFIG_MAP.replace("name: settings", f"name: {name}\n  labels: {{group: {group}}}"))
    return kubectl


def list_config_maps(objects: NamespaceObjects) -> list[str]:
    return sorted(objects.names("configmaps") - {"kube-root-ca.crt"})


def test_by_name(maps: Kubectl, objects: NamespaceObjects) -> None:
    assert maps("delete", "configmap", "a", "c").splitlines() == ['configmap "a" deleted', 'configmap "c" deleted']
    assert list_config_maps(objects) == ["b"]


def test_by_label(maps: Kubectl, objects: NamespaceObjects) -> None:
    assert maps("delete", "configmap", "-l", "group=one").splitlines() == [
        'configmap "a" deleted',
        'configmap "b" deleted',
    ]
    assert list_config_maps(objects) == ["c"]


def test_all_flag(maps: Kubectl, objects: NamespaceObjects) -> None:
    output = maps("delete", "configmaps", "--all")
    assert {f'configmap "{name}" deleted' for name in "abc"} <= set(output.splitlines())
    assert list_config_maps(objects) == []


def test_by_file(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    both = f"{CONFIG_MAP}---\n{POD}"
    objects.apply(both)
    output = kubectl("delete", "-f", "-", stdin=both)
    assert output.splitlines() == ['configmap "settings" deleted', 'pod "web" deleted']
    assert (list_config_maps(objects), objects.names("pods")) == ([], set())


def test_several_kinds(maps: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(SERVICE)
    output = maps("delete", "configmap/a", "service/web")
    assert output.splitlines() == ['configmap "a" deleted', 'service "web" deleted']
    assert (list_config_maps(objects), objects.names("services")) == (["b", "c"], set())


def test_missing_object(maps: Kubectl, objects: NamespaceObjects) -> None:
    done = maps.run("delete", "configmap", "nobody", "a")
    assert done.returncode == 1
    assert done.stderr == 'Error from server (NotFound): configmaps "nobody" not found\n'
    assert list_config_maps(objects) == ["b", "c"]
    assert maps("delete", "configmap", "nobody", "--ignore-not-found") == ""


def test_dry_run(maps: Kubectl, objects: NamespaceObjects) -> None:
    assert maps("delete", "configmap", "a", "--dry-run=server") == 'configmap "a" deleted (server dry run)\n'
    assert list_config_maps(objects) == ["a", "b", "c"]


def test_force_deletion_of_a_pod(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(POD)
    assert kubectl("delete", "pod", "web", "--force", "--grace-period=0") == 'pod "web" force deleted\n'
    assert objects.names("pods") == set()


def test_wait_flag_with_a_finalizer(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    """A finalizer delays the deletion: with --wait=false kubectl returns at once, otherwise it waits."""
    text = CONFIG_MAP.replace("name: settings", "name: settings\n  finalizers: [example.com/hold]")
    objects.apply(text)
    assert kubectl("delete", "configmap", "settings", "--wait=false") == 'configmap "settings" deleted\n'
    assert objects.get("configmap/settings")["metadata"]["deletionGracePeriodSeconds"] == 0
    assert "timed out waiting for the condition" in kubectl.fails("delete", "configmap", "settings", "--timeout=1s")
    with kubectl.running("delete", "configmap", "settings") as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith('configmap "settings" deleted')
        kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert waiting.wait(60) == 0


def test_namespace_is_deleted_with_its_contents(
    kubectl: Kubectl, sampan_cluster: Cluster, sampan_namespace: str
) -> None:
    name = f"{sampan_namespace}-full"
    contents = NamespaceObjects(sampan_cluster, name)
    contents.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, CONFIG_MAP, DEPLOYMENT])
    assert kubectl("delete", "namespace", name) == f'namespace "{name}" deleted\n'
    assert (contents.list("configmaps"), contents.list("deployments")) == ([], [])


def test_missing_name_is_an_error(kubectl: Kubectl) -> None:
    assert kubectl.fails("delete", "configmaps").startswith("error: resource(s) were provided, but no name")
