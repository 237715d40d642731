"""kubectl delete."""

import pytest

from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, POD


@pytest.fixture
def maps(kubectl: Kubectl) -> Kubectl:
    """kubectl with the ConfigMaps a, b and c; a and b have a label."""
    for name in ("a", "b", "c"):
        kubectl("create", "configmap", name)
    kubectl("label", "configmap", "a", "b", "group=one")
    return kubectl


def left(kubectl: Kubectl) -> list[str]:
    names = [name.removeprefix("configmap/") for name in kubectl("get", "configmaps", "-o", "name").split()]
    return [name for name in names if name != "kube-root-ca.crt"]


def test_by_name(maps: Kubectl) -> None:
    assert maps("delete", "configmap", "a", "c").splitlines() == ['configmap "a" deleted', 'configmap "c" deleted']
    assert left(maps) == ["b"]


def test_by_label(maps: Kubectl) -> None:
    assert maps("delete", "configmap", "-l", "group=one").splitlines() == [
        'configmap "a" deleted',
        'configmap "b" deleted',
    ]
    assert left(maps) == ["c"]


def test_all_flag(maps: Kubectl) -> None:
    output = maps("delete", "configmaps", "--all")
    assert {f'configmap "{name}" deleted' for name in "abc"} <= set(output.splitlines())
    assert left(maps) == []


def test_by_file(kubectl: Kubectl) -> None:
    both = f"{CONFIG_MAP}---\n{POD}"
    kubectl("create", "-f", "-", stdin=both)
    output = kubectl("delete", "-f", "-", stdin=both)
    assert output.splitlines() == ['configmap "settings" deleted', 'pod "web" deleted']


def test_several_kinds(maps: Kubectl) -> None:
    maps("create", "secret", "generic", "s")
    assert maps("delete", "configmap/a", "secret/s").splitlines() == ['configmap "a" deleted', 'secret "s" deleted']


def test_missing_object(maps: Kubectl) -> None:
    done = maps.run("delete", "configmap", "nobody", "a")
    assert done.returncode == 1
    assert done.stderr == 'Error from server (NotFound): configmaps "nobody" not found\n'
    assert left(maps) == ["b", "c"]
    assert maps("delete", "configmap", "nobody", "--ignore-not-found") == ""


def test_dry_run(maps: Kubectl) -> None:
    assert maps("delete", "configmap", "a", "--dry-run=server") == 'configmap "a" deleted (server dry run)\n'
    assert left(maps) == ["a", "b", "c"]


def test_force_deletion_of_a_pod(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=POD)
    assert kubectl("delete", "pod", "web", "--force", "--grace-period=0") == 'pod "web" force deleted\n'
    assert "NotFound" in kubectl.fails("get", "pod", "web")


def test_wait_flag_with_a_finalizer(kubectl: Kubectl) -> None:
    """A finalizer delays the deletion: with --wait=false kubectl returns at once, otherwise it waits."""
    text = CONFIG_MAP.replace("name: settings", "name: settings\n  finalizers: [example.com/hold]")
    kubectl("create", "-f", "-", stdin=text)
    assert kubectl("delete", "configmap", "settings", "--wait=false") == 'configmap "settings" deleted\n'
    assert kubectl.jsonpath("get", "configmap", "settings", "{.metadata.deletionGracePeriodSeconds}") == "0"
    assert "timed out waiting for the condition" in kubectl.fails("delete", "configmap", "settings", "--timeout=1s")
    with kubectl.running("delete", "configmap", "settings") as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith('configmap "settings" deleted')
        kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert waiting.wait(60) == 0


def test_namespace_is_deleted_with_its_contents(kubectl: Kubectl, sampan_namespace: str) -> None:
    name = f"{sampan_namespace}-full"
    kubectl("create", "namespace", name)
    kubectl("create", "configmap", "settings", "-n", name)
    kubectl("create", "deployment", "web", "--image=nginx", "-n", name)
    assert kubectl("delete", "namespace", name) == f'namespace "{name}" deleted\n'
    assert kubectl("get", "configmaps,deployments", "-n", name, "-o", "name") == ""


def test_missing_name_is_an_error(kubectl: Kubectl) -> None:
    assert kubectl.fails("delete", "configmaps").startswith("error: resource(s) were provided, but no name")
