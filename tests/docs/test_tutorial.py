"""Every command of the tutorial works and prints what the page shows."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.console import Console, Step, matches, steps


def test_tutorial_commands_print_what_the_page_shows(repository: Path, tmp_path: Path) -> None:
    console = Console(tmp_path)
    try:
        for step in steps((repository / "docs/tutorial.md").read_text()):
            console.run(step)
    finally:
        command = [sys.executable, "-m", "sampan", "down", "--name", "tutorial", "--delete"]
        subprocess.run(command, env=dict(console.environment), capture_output=True, check=False)


def test_steps_of_a_page() -> None:
    page = "Save it as `a.yaml`:\n\n```yaml\nx: 1\n```\n\n```\n$ cat a.yaml \\\n>  b\nx: 1\n$ true\n```\n"
    page += "\n```yaml\nz: 1\n```\n"
    assert list(steps(page)) == [Step("x: 1\n", file="a.yaml"), Step("cat a.yaml   b", ("x: 1",)), Step("true")]


@pytest.mark.parametrize(
    ("expected", "printed", "is_same"),
    [
        (["node-0   Ready   8s"], ["node-0    Ready   12s"], True),
        (["node-0   Ready   8s"], ["node-0   NotReady   8s"], False),
        (["web-5c4798c59b-26d8z   1/1"], ["web-7d9f8b6c5d-x2x9z   1/1"], True),
        (["web-5c4798c59b-26d8z   1/1"], ["app-7d9f8b6c5d-x2x9z   1/1"], False),
        (["a", "...", "d"], ["a", "b", "c", "d"], True),
        (["a", "...", "d"], ["a", "b"], False),
        (["last tried 1s ago…"], ["last tried 3s ago (attempt 2)"], True),
        (["deployment.apps/web created"], ["deployment.apps/web unchanged"], False),
        ([], ["anything"], True),
    ],
)
def test_output_is_compared_with_the_page(expected: list[str], printed: list[str], is_same: bool) -> None:
    assert matches(tuple(expected), printed) is is_same
