"""Fixtures of the command line tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Sampan


@pytest.fixture
def sampan(tmp_path: Path) -> Iterator[Sampan]:
    """The command, in a home of its own; clusters that are left running there are stopped."""
    command = Sampan(tmp_path)
    yield command
    directory = command.home / "clusters"
    for path in directory.iterdir() if directory.exists() else ():
        command.run("down", "--name", path.name)
