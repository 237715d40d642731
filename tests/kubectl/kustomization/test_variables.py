"""Variables of kustomizations; outputs and errors are those of kubectl v1.36.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import build

OBJECTS = """
apiVersion: v1
kind: Service
metadata: {name: s, annotations: {a: $(PORT), b: x$(PORT)y, c: $$(SVC) $(NOPE) $x $(}}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: c, image: $(SVC), command: [echo, $(SVC), --port=$(PORT)], env: [{name: P, value: $(PORT)}]}
"""
SERVICE = "objref: {apiVersion: v1, kind: Service, name: s}"
VARIABLES = (
    f"vars: [{{name: SVC, {SERVICE}}}, {{name: PORT, {SERVICE}, fieldref: {{fieldPath: 'spec.ports[0].port'}}}}]"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "objects.yaml").write_text(OBJECTS)
    (tmp_path / "base" / "kustomization.yaml").write_text(f"resources: [objects.yaml]\n{VARIABLES}\n")
    (tmp_path / "overlay").mkdir()
    return tmp_path


def test_variables_are_replaced_after_name_transformations(root: Path) -> None:
    (root / "overlay" / "kustomization.yaml").write_text("resources: [../base]\nnamePrefix: p-\n")
    service, pod = build(str(root / "overlay"))
    assert service["metadata"]["annotations"] == {"a": "80", "b": "x80y", "c": "$(SVC) $(NOPE) $x $("}
    container = pod["spec"]["containers"][0]
    assert container["command"] == ["echo", "p-s", "--port=80"]
    assert container["env"] == [{"name": "P", "value": 80}], "a variable alone keeps its type"
    assert container["image"] == "$(SVC)", "images have no variables"


def test_unused_variables_are_reported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "overlay" / "kustomization.yaml").write_text(f"resources: [../base]\nvars: [{{name: OTHER, {SERVICE}}}]\n")
    build(str(root / "overlay"))
    assert capsys.readouterr().err.splitlines()[-1] == "well-defined vars that were never replaced: OTHER"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        (
            "[{name: A, objref: {apiVersion: apps/v1, kind: Deployment, name: x}}]",
            "var '{A Deployment.v1.apps {metadata.name}}' cannot be mapped to a field in the set of known resources",
        ),
        (
            f"[{{name: A, {SERVICE}, fieldref: {{fieldPath: spec.nope}}}}]",
            "field specified in var '{A Service.v1.[noGrp] {spec.nope}}' not found in corresponding resource",
        ),
        (
            f"[{{name: SVC, {SERVICE}}}]",
            "merging vars [{SVC Service.[noVer].[noGrp] {}}]: var 'SVC' already encountered",
        ),
    ],
)
def test_invalid_variables_are_rejected(root: Path, variables: str, reason: str) -> None:
    (root / "overlay" / "kustomization.yaml").write_text(f"resources: [../base]\nvars: {variables}\n")
    with pytest.raises(KubectlError) as failure:
        build(str(root / "overlay"))
    assert failure.value.message == reason
