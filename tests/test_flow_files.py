"""The flows that people read take no more files than their budget (docs/development.md)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import requires


@pytest.mark.parametrize("flow", ["post", "schedule", pytest.param("start", marks=requires("root", "crun or runc"))])
def test_flow_takes_no_more_files_than_its_budget(repository: Path, flow: str) -> None:
    command = [sys.executable, str(repository / "tools/flow_files.py"), flow]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.stdout.startswith(f"{flow}: "), run.stderr
    assert run.returncode == 0, run.stdout
