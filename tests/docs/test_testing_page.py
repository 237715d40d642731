"""The examples in docs/testing.md."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/testing.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SCRIPTS = [block for block in BLOCKS if "def test_" not in block]


@pytest.mark.parametrize("code", SCRIPTS, ids=range(len(SCRIPTS)))
def test_example_runs(code: str) -> None:
    assert "Cluster" in code
    exec(compile(code, "example", "exec"), {})


def test_examples_are_valid_python() -> None:
    assert len(BLOCKS) == PAGE.count("```python")
    assert 0 < len(SCRIPTS) < len(BLOCKS), "the page has scripts and tests"
    for block in BLOCKS:
        compile(block, "example", "exec")


def test_every_fixture_and_option_is_described(repository: Path) -> None:
    sources = [repository / f"src/sampan/testing/{name}.py" for name in ("pytest_plugin", "short_fixtures")]
    plugin = "\n".join(source.read_text() for source in sources)
    names = re.findall(r"@pytest\.fixture.*\ndef (\w+)|\"(--[\w-]+)\"", plugin)
    assert len(names) >= 25
    assert [name for pair in names for name in pair if name and f"`{name}`" not in PAGE] == []
