"""kubectl edit, patch, replace, label, annotate, taint, cordon."""

import pytest

from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, POD
from tests.e2e.kubectl.namespace_objects import NamespaceObjects


@pytest.fixture
def settings(kubectl: Kubectl, objects: NamespaceObjects) -> Kubectl:
    """kubectl with a ConfigMap `settings` in its namespace."""
    objects.apply(CONFIG_MAP)
    return kubectl


def data(objects: NamespaceObjects) -> dict[str, str]:
    data: dict[str, str] = objects.get("configmap/settings")["data"]
    return data


class TestEdit:
    def test_edit_saves_the_change(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        assert settings("edit", "configmap", "settings", editor="sed -i s/red/blue/") == "configmap/settings edited\n"
        assert data(objects) == {"color": "blue", "size": "small"}

    def test_edit_without_a_change_is_cancelled(self, settings: Kubectl) -> None:
        done = settings.run("edit", "configmap", "settings", editor="true")
        assert done.returncode == 0
        assert "Edit cancelled, no changes made." in done.stdout + done.stderr

    def test_invalid_edit_is_rejected(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        error = settings.fails("edit", "configmap", "settings", editor="sed -i s/color:/'bad key:'/")
        assert 'configmaps "settings" is invalid' in error
        assert data(objects)["color"] == "red"


class TestPatch:
    @pytest.mark.parametrize(
        ("type", "patch", "expected"),
        [
            ("strategic", '{"data":{"color":"blue"}}', {"color": "blue", "size": "small"}),
            ("merge", '{"data":{"size":null,"new":"1"}}', {"color": "red", "new": "1"}),
            ("json", '[{"op":"replace","path":"/data/color","value":"blue"}]', {"color": "blue", "size": "small"}),
            ("json", '[{"op":"remove","path":"/data/color"}]', {"size": "small"}),
        ],
        ids=["strategic", "merge", "json-replace", "json-remove"],
    )
    def test_patch_types(
        self, settings: Kubectl, objects: NamespaceObjects, type: str, patch: str, expected: dict[str, str]
    ) -> None:
        assert settings("patch", "configmap", "settings", "--type", type, "-p", patch) == (
            "configmap/settings patched\n"
        )
        assert data(objects) == expected

    def test_patch_without_a_change(self, settings: Kubectl) -> None:
        output = settings("patch", "configmap", "settings", "-p", '{"data":{"color":"red"}}')
        assert output == "configmap/settings patched (no change)\n"

    def test_strategic_patch_merges_lists_by_key(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(POD)
        kubectl("patch", "pod", "web", "-p", '{"spec":{"containers":[{"name":"main","image":"nginx:1.28"}]}}')
        assert [container["image"] for container in objects.get("pod/web")["spec"]["containers"]] == ["nginx:1.28"]

    def test_patch_of_the_status_subresource(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        kubectl.require_version(1, 24)
        objects.apply(POD)
        patch = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
        kubectl("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", patch)
        assert kubectl.table("get", "pod", "web")[1][2] == "Running"

    def test_missing_object(self, kubectl: Kubectl) -> None:
        assert kubectl.fails("patch", "configmap", "nobody", "-p", "{}") == (
            'Error from server (NotFound): configmaps "nobody" not found\n'
        )

    def test_json_patch_of_a_missing_path(self, settings: Kubectl) -> None:
        patch = '[{"op":"remove","path":"/data/nothing"}]'
        error = settings.fails("patch", "configmap", "settings", "--type=json", "-p", patch)
        assert error.startswith("The request is invalid")

    def test_patch_to_an_invalid_object_is_rejected(self, settings: Kubectl) -> None:
        error = settings.fails("patch", "configmap", "settings", "-p", '{"data":{"bad key":"1"}}')
        assert error.startswith('The ConfigMap "settings" is invalid: data[bad key]: Invalid value: "bad key": ')

    def test_malformed_json(self, settings: Kubectl) -> None:
        assert settings.fails("patch", "configmap", "settings", "-p", "{broken") == (
            "Error from server (BadRequest): invalid JSON patch\n"
        )


class TestReplace:
    def test_object_is_replaced(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        text = CONFIG_MAP.replace("  size: small\n", "")
        assert settings("replace", "-f", "-", stdin=text) == "configmap/settings replaced\n"
        assert data(objects) == {"color": "red"}

    def test_force_deletes_and_recreates_the_object(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        before = objects.get("configmap/settings")["metadata"]["uid"]
        output = settings("replace", "--force", "-f", "-", stdin=CONFIG_MAP)
        assert output.splitlines() == ['configmap "settings" deleted', "configmap/settings replaced"]
        assert objects.get("configmap/settings")["metadata"]["uid"] != before

    def test_missing_object(self, kubectl: Kubectl) -> None:
        assert kubectl.fails("replace", "-f", "-", stdin=CONFIG_MAP) == (
            'Error from server (NotFound): error when replacing "STDIN": configmaps "settings" not found\n'
        )

    def test_stale_resource_version_is_a_conflict(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        manifest = settings("get", "configmap", "settings", "-o", "yaml")
        objects.apply(CONFIG_MAP.replace("red", "blue"))
        assert settings.fails("replace", "-f", "-", stdin=manifest) == (
            'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps '
            '"settings": the object has been modified; please apply your changes to the latest version and try again\n'
        )


class TestLabels:
    def test_label_is_added_overwritten_and_removed(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        assert settings("label", "configmap", "settings", "team=a") == "configmap/settings labeled\n"
        error = settings.fails("label", "configmap", "settings", "team=b")
        assert error == "error: 'team' already has a value (a), and --overwrite is false\n"
        settings("label", "configmap", "settings", "team=b", "--overwrite")
        assert objects.get("configmap/settings")["metadata"]["labels"] == {"team": "b"}
        settings("label", "configmap", "settings", "team-")
        assert "labels" not in objects.get("configmap/settings")["metadata"]

    def test_label_several_objects(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        objects.apply(CONFIG_MAP.replace("settings", "second"))
        output = settings("label", "configmap", "settings", "second", "team=a")
        assert output.splitlines() == ["configmap/settings labeled", "configmap/second labeled"]
        assert objects.names("configmaps", labels="team=a") == {"settings", "second"}

    def test_invalid_label_value(self, settings: Kubectl) -> None:
        assert "invalid label value" in settings.fails("label", "configmap", "settings", "team=not good")

    def test_annotate(self, settings: Kubectl, objects: NamespaceObjects) -> None:
        assert settings("annotate", "configmap", "settings", "note=any text").startswith("configmap/settings annotate")
        assert objects.get("configmap/settings")["metadata"]["annotations"] == {"note": "any text"}
        settings("annotate", "configmap", "settings", "note-")
        assert "annotations" not in objects.get("configmap/settings")["metadata"]


def test_taint_cordon_and_uncordon(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    node = f"node-of-{objects.namespace}"
    objects.apply(f"apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n")
    try:
        assert kubectl("taint", "node", node, "only=this:NoSchedule") == f"node/{node} tainted\n"
        taint = {"key": "only", "value": "this", "effect": "NoSchedule"}
        assert taint in objects.get(f"node/{node}")["spec"]["taints"]
        assert kubectl("cordon", node) == f"node/{node} cordoned\n"
        assert kubectl.table("get", "node", node)[1][1] == "Unknown,SchedulingDisabled"
        assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
        assert "unschedulable" not in objects.get(f"node/{node}")["spec"]
    finally:
        kubectl("delete", "node", node)
