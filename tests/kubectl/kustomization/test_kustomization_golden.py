"""Kustomizations whose objects and errors were recorded with kubectl v1.36.4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import build
from sampan.kubectl.printers import as_yaml

RECORDED = json.loads((Path(__file__).parent / "data" / "kustomizations.json").read_text())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, content in RECORDED["files"].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes.fromhex(content["hex"]) if isinstance(content, dict) else content.encode())
    return tmp_path


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["directory"])
def test_same_result_as_kubectl(case: dict[str, Any], root: Path) -> None:
    output = error = ""
    try:
        output = "---\n".join(f"{as_yaml(value)}\n" for value in build(str(root / case["directory"])))
    except KubectlError as failure:
        error = failure.message.replace(str(root), "ROOT")
    assert (output, error) == (case["output"], case["error"])


def test_a_file_outside_of_the_directory_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "k"
    directory.mkdir()
    (tmp_path / "secret").write_text("x")
    (directory / "link").symlink_to(tmp_path / "secret")
    (directory / "kustomization.yaml").write_text("configMapGenerator: [{name: a, files: [link]}]\n")
    with pytest.raises(KubectlError, match="security"):
        build(str(directory))
