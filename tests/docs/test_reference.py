"""The reference pages are those that tools/reference.py generates from the code."""

import subprocess
import sys
from pathlib import Path


def test_the_pages_are_up_to_date(repository: Path) -> None:
    command = [sys.executable, "tools/reference.py", "--check"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
