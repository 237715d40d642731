"""The build of the dashboard's page (`tools/build_backend.py`), and the wheels that contain it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = ("sh", "env", "uname", "git")
"""Programs besides Node that a build may call."""


@pytest.fixture(scope="module")
def backend(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_backend", repository / "tools/build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v20.19.0\n", True), ("v24.1.0", True), ("v20.18.9", False), ("v18.20.1", False), ("", False), ("20", False)],
)
def test_node_is_used_from_version_20_19_on(backend: ModuleType, version: str, expected: bool) -> None:
    assert backend.is_recent(version) is expected


def test_the_page_is_built_again_only_if_its_sources_change(backend: ModuleType, tmp_path: Path) -> None:
    for name in ("src/a.ts", "src/b.ts", "package.json", "test/a.test.ts", "node_modules/x/index.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    before = backend.source_hash(tmp_path)
    for name in ("test/a.test.ts", "node_modules/x/index.js"):
        (tmp_path / name).write_text("2")
    assert backend.source_hash(tmp_path) == before
    (tmp_path / "src/a.ts").write_text("2")
    changed = backend.source_hash(tmp_path)
    (tmp_path / "src/a.ts").rename(tmp_path / "src/c.ts")
    assert len({before, changed, backend.source_hash(tmp_path)}) == 3


def test_a_wheel_asks_for_node_where_there_is_none(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(backend, "STATIC", tmp_path)
    assert backend.find_node() is None
    with pytest.raises(backend.PageError, match="needs Node"):
        backend.build_page()


def test_an_old_node_of_the_machine_is_not_used(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, output in (("node", "v18.20.1"), ("npm", "10.0.0")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {output}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: None)
    assert backend.find_node() is None


@pytest.mark.soak
@pytest.mark.parametrize("has_node", [True, False], ids=["node of the machine", "node of PyPI"])
def test_the_wheel_of_a_source_distribution_contains_the_page(repository: Path, tmp_path: Path, has_node: bool) -> None:
    """Needs the network. A clone has no built page, like the source distribution."""
    if has_node and shutil.which("npm") is None:
        pytest.skip("there is no Node here: apt-get install nodejs npm")
    clone, programs = tmp_path / "clone", tmp_path / "programs"
    subprocess.run(["git", "clone", "--quiet", str(repository), str(clone)], check=True)
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(str(shutil.which(name)))
    environment = {**os.environ, "PATH": os.environ["PATH"] if has_node else str(programs)}
    sdist = [sys.executable, "-c", f"import build_backend; print(build_backend.build_sdist({str(tmp_path)!r}))"]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--target", str(tmp_path / "hatchling"), "hatchling"], check=True)
    search = f"{clone / 'tools'}{os.pathsep}{tmp_path / 'hatchling'}"
    subprocess.run(sdist, cwd=clone, env={**environment, "PYTHONPATH": search}, check=True)
    archive = next(tmp_path.glob("sampan-*.tar.gz"))
    wheels = [*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(archive)]
    subprocess.run(wheels, env=environment, check=True)
    names = zipfile.ZipFile(next(tmp_path.glob("sampan-*.whl"))).namelist()
    assert "sampan/dashboard/static/index.html" in names
    assert any(name.startswith("sampan/dashboard/static/assets/") and name.endswith(".js.br") for name in names)
