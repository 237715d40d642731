"""The example in docs/test-an-operator.md."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_example_of_the_operator_page_passes(repository: Path, tmp_path: Path) -> None:
    text = (repository / "docs/test-an-operator.md").read_text()
    operator, test = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "greeter.py").write_text(operator)
    (tmp_path / "test_greeter.py").write_text(test)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--import-mode=importlib",
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
