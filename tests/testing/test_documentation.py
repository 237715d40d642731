"""The examples in docs/testing.md do what they say."""

import re
from pathlib import Path

import pytest


def blocks(repository: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (repository / "docs/testing.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(3))
def test_an_example_runs(repository: Path, number: int) -> None:
    code = blocks(repository)[number]
    assert "Cluster" in code
    exec(compile(code, f"example {number}", "exec"), {})


def test_all_examples_are_known(repository: Path) -> None:
    *shown, with_pytest = blocks(repository)
    assert len(shown) == 3
    assert "def test_" in with_pytest


def test_every_fixture_and_option_is_described(repository: Path) -> None:
    plugin = (repository / "src/sampan/testing/pytest_plugin.py").read_text()
    text = (repository / "docs/testing.md").read_text()
    names = re.findall(r"^def (sampan_\w+)|\"(--sampan-[\w-]+)\"", plugin, re.MULTILINE)
    assert len(names) >= 8
    assert [name for pair in names for name in pair if name and f"`{name}`" not in text] == []
