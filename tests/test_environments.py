"""The unit tests in other environments: the lowest versions of the dependencies that pyproject.toml allows, and the
first and the last version of Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_UNIT_TESTS_TIMEOUT_S = 3600
_PIP_OPTIONS = ("--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of uv, which installs other versions of Python, too; it is fetched if the machine has none."""
    if (program := shutil.which("uv")) and _run([program, "--version"], check=False).returncode == 0:
        return program
    directory = tmp_path_factory.mktemp("uv")
    _run([sys.executable, "-m", "pip", "install", *_PIP_OPTIONS, "--target", str(directory), "uv"])
    return str(directory / "bin/uv")


@pytest.mark.soak
@pytest.mark.timeout(_UNIT_TESTS_TIMEOUT_S)
@pytest.mark.parametrize(
    ("version", "resolution"),
    [
        pytest.param("3.11", "lowest-direct", id="lowest versions"),
        pytest.param("3.11", "highest", id="Python 3.11"),
        pytest.param("3.14", "highest", id="Python 3.14"),
    ],
)
def test_unit_tests_pass_in_environment(
    uv: str, repository: Path, tmp_path: Path, version: str, resolution: str
) -> None:
    directory = tmp_path / "environment"
    python = str(directory / "bin/python")
    if _run([uv, "venv", "--quiet", "--python", version, str(directory)], check=False).returncode:
        pytest.skip(f"Python {version} is not installed and cannot be downloaded")
    install = [uv, "pip", "install", "--quiet", "--python", python, "--resolution", resolution]
    _run([*install, "--editable", f"{repository}[dev]"])
    tests = [python, "-m", "pytest", "--unit", "-p", "no:cacheprovider", "-n", str((os.cpu_count() or 1) + 2)]
    result = _run([*tests, "--dist", "loadfile", "--no-loadscope-reorder"], directory=repository, check=False)
    assert result.returncode == 0, result.stdout[-20_000:]


def _run(command: list[str], *, directory: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, check=check, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
