"""The envtest suite of a Go project in the layout of kubebuilder, on the programs of `sampan envtest path`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operators.go_program import GUESTBOOK_SUITE

TIMEOUT_S = 300


@pytest.fixture(scope="module")
def suite() -> Path:
    return GUESTBOOK_SUITE.build_or_skip()


def run_suite(suite: Path, *words: str, **environment: str) -> str:
    """Run the suite in the directory of its package, as `go test` does, and return its output."""
    path = subprocess.run(
        [sys.executable, "-m", "sampan", "envtest", "path"], capture_output=True, text=True, check=True, timeout=60
    )
    completed = subprocess.run(
        [str(suite), "-ginkgo.v", "-ginkgo.no-color", *words],
        cwd=GUESTBOOK_SUITE.source / "internal/controller",
        env={**os.environ, "KUBEBUILDER_ASSETS": path.stdout.strip(), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert completed.returncode == 0, completed.stdout
    return completed.stdout


def test_envtest_suite_passes_with_controllers(suite: Path) -> None:
    output = run_suite(suite, SAMPAN_ENVTEST_CONTROLLERS="*")
    assert "9 Passed | 0 Failed | 0 Pending | 0 Skipped" in output


def test_guestbook_specs_pass_without_controllers(suite: Path) -> None:
    output = run_suite(suite, "-ginkgo.focus", "Guestbook", SAMPAN_ENVTEST_CONTROLLERS="")
    assert "5 Passed | 0 Failed | 0 Pending | 4 Skipped" in output
