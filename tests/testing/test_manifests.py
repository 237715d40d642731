"""Manifests as text, files, directories, objects and lists."""

from pathlib import Path
from typing import Any

import pytest

from sampan.testing.builders import config_map
from sampan.testing.manifests import check_hollow_annotations, read_manifests

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}}
TEXT = """
apiVersion: v1
kind: ConfigMap
metadata: {name: map}
---
# a document with only a comment
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
"""


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [value["metadata"]["name"] for value in objects]


def test_yaml_text_with_several_documents() -> None:
    assert names(read_manifests(TEXT)) == ["map", "secret"]


def test_json_on_one_line() -> None:
    assert read_manifests('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}}') == [MAP]


@pytest.mark.parametrize("as_text", [True, False], ids=["string", "path"])
def test_files_and_directories_are_read(tmp_path: Path, as_text: bool) -> None:
    (tmp_path / "b.yaml").write_text(TEXT)
    (tmp_path / "a.json").write_text('{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"}}')
    (tmp_path / "notes.txt").write_text("not a manifest")
    form = str if as_text else Path
    assert names(read_manifests(form(tmp_path / "b.yaml"))) == ["map", "secret"]
    assert names(read_manifests(form(tmp_path))) == ["service", "map", "secret"]


def test_mixed_and_nested_lists_are_flattened() -> None:
    assert names(read_manifests([MAP, config_map("typed"), [TEXT]])) == ["map", "typed", "map", "secret"]


def test_a_list_object_is_replaced_by_its_items() -> None:
    assert read_manifests({"apiVersion": "v1", "kind": "List", "items": [MAP, MAP]}) == [MAP, MAP]


def test_namespaces_and_crds_are_sorted_first() -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "d"},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    assert names(read_manifests([MAP, namespace, definition])) == ["n", "d", "map"]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("a: [\n", ValueError, "manifest: "),
        ("a: b\n", ValueError, "not an object with apiVersion and kind"),
        ("missing.yaml", FileNotFoundError, "missing.yaml"),
        ({"kind": "ConfigMap"}, ValueError, "not an object with apiVersion and kind"),
        (3, TypeError, "manifest: must be text, a path, an object or a list of them, not int"),
    ],
    ids=str,
)
def test_invalid_manifests_are_rejected(source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_manifests(source)


def test_directory_without_manifests_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"contains no \.json, \.yaml, \.yml files"):
        read_manifests(tmp_path)


def make_annotated(kind: str, key: str, *path: str) -> dict[str, Any]:
    """An object of the kind with an annotation for hollow containers at the path, and containers beside it."""
    value: dict[str, Any] = {"metadata": {"annotations": {f"hollow.sampan.dev/{key}": "5s"}}}
    value["spec"] = {"containers": [{"name": "web"}]}
    for name in reversed(path):
        value = {name: value}
    return {**value, "kind": kind, "metadata": {**value.get("metadata", {}), "name": "a"}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (make_annotated("Pod", "run"), ""),
        (make_annotated("Pod", "run.web"), ""),
        (make_annotated("Pod", "runn"), "pod/a: annotation hollow.sampan.dev/runn is unknown .* did you mean"),
        (make_annotated("Pod", "run.db"), "pod/a: .* the pod has no container 'db'; it has web"),
        (make_annotated("Deployment", "run", "spec", "template"), ""),
        (make_annotated("Deployment", "run-for", "spec", "template"), "deployment/a: .*/run-for is unknown"),
        (make_annotated("CronJob", "red", "spec", "jobTemplate", "spec", "template"), "did you mean .*/ready"),
        (make_annotated("Deployment", "run"), "annotation .*/run belongs in the metadata of spec.template"),
        (make_annotated("Widget", "runn"), ""),
    ],
)
def test_annotations_without_effect_on_hollow_containers_are_rejected(value: dict[str, Any], message: str) -> None:
    if not message:
        return check_hollow_annotations(value)
    with pytest.raises(ValueError, match=message):
        check_hollow_annotations(value)
